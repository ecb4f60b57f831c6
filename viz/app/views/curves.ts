import type { CurvesDetail, CurvesList } from "../../api.ts";
import { figure, onWidth } from "../charts/figure.ts";
import { type Line, LineChart } from "../charts/line-chart.ts";
import { h, select } from "../controls/dom.ts";
import { approximate, hitRatios, integer, percent, roundPercent } from "../data/format.ts";
import { labelColours } from "../data/run-labels.ts";
import { get } from "../data/server.ts";
import { updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** The curves that `kvlab curve --out` saved in the folder of runs. */
export const curvesView: View = { name: "curves", title: "Curves", menuOrder: 3, show: showCurves };

async function showCurves({ root, params, signal }: ViewContext): Promise<void> {
  root.append(h("h1", {}, "Curves"));
  const { curves: saved } = await get<CurvesList>("api/curves", signal);
  if (signal.aborted) return;
  if (saved.length === 0) {
    const command = h("code", {}, "kvlab curve --out runs/curves");
    root.append(h("p", { class: "hint" }, "There are no saved curves. ", command, " saves some."));
    return;
  }
  const requested = params.get("id");
  let id = saved.some((row) => row.id === requested) ? requested! : saved[0].id;
  let metric = params.get("metric") ?? "";
  let shown: CurvesDetail | undefined;
  const { element, body, note } = figure("Hit ratio by cache size");
  const chart = new LineChart(body, {
    title: "Hit ratio by cache size",
    x: { label: "cache size, blocks (logarithmic)", log: true, format: approximate },
    y: { label: "hit ratio", fromZero: true, format: roundPercent },
    marks: true,
  });
  onWidth(body, signal, () => chart.draw());
  const draw = () => {
    if (shown === undefined) return;
    note(noteOf(shown));
    chart.update(linesOf(shown, metric || shown.metric));
  };
  const load = async () => {
    const wanted = id;
    const loaded = await get<CurvesDetail>(`api/curves/${encodeURIComponent(wanted)}`, signal);
    if (signal.aborted || wanted !== id) return;
    shown = loaded;
    draw();
  };
  const all = saved.map((row) => ({
    value: row.id,
    label: `${row.id}: ${row.trace}, ${integer(row.requests)} requests`,
  }));
  const chooseCurves = (value: string) => {
    id = value;
    updateRoute({ id });
    void load();
  };
  const definitions = Object.entries(hitRatios).map(([value, label]) => ({ value, label }));
  const chooseMetric = (value: string) => {
    metric = value;
    updateRoute({ metric });
    draw();
  };
  await load();
  if (signal.aborted) return;
  root.append(
    h(
      "div",
      { class: "bar" },
      select("Saved curves", all, id, chooseCurves),
      select("Hit ratio definition", definitions, metric || shown!.metric, chooseMetric),
    ),
    element,
  );
}

function noteOf({ distinctBlocks, blockTokens, isSampled }: CurvesDetail): string {
  const content = `${integer(distinctBlocks)} distinct blocks of ${integer(blockTokens)} tokens.`;
  return isSampled ? `${content} Estimated from a sample; the points have intervals of 95 %.` : content;
}

/** A line for each curve that has the metric; bounds are dashed. */
function linesOf({ curves, metric: main, isSampled }: CurvesDetail, metric: string): Line[] {
  const names = [
    (curve: CurvesDetail["curves"][number]) => curve.index,
    (curve: CurvesDetail["curves"][number]) => curve.rules.join(" "),
  ].filter((of) => new Set(curves.map(of)).size > 1);
  const labels = curves.map((curve) => [curve.eviction, ...names.map((of) => of(curve))].filter(Boolean).join(", "));
  const colours = labelColours(labels.filter((_, i) => curves[i].eviction !== "bound"));
  return curves.flatMap(({ eviction, points }, i): Line[] => {
    const drawn = points.filter(({ hitRatio }) => hitRatio[metric] !== undefined);
    if (drawn.length === 0) return [];
    const interval = (low: number, high: number) =>
      isSampled && metric === main ? `\n${percent(low)} to ${percent(high)}` : "";
    return [
      {
        label: labels[i],
        colour: colours.get(labels[i]) ?? "var(--bound)",
        dashed: eviction === "bound",
        points: drawn.map(({ blocks, hitRatio, low, high }) => ({
          x: blocks,
          y: hitRatio[metric],
          text: `${percent(hitRatio[metric])}\n${integer(blocks)} blocks${interval(low, high)}`,
        })),
      },
    ];
  });
}
