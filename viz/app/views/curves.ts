import type { CurvesDetail, CurvesList } from "../../api.ts";
import { figure, onWidth } from "../charts/figure.ts";
import { LineChart } from "../charts/line-chart.ts";
import { h, select } from "../controls/dom.ts";
import { approximate, hitRatios, integer, percent, roundPercent } from "../data/format.ts";
import type { Line } from "../data/lines.ts";
import { boundStyle, seriesStyles } from "../data/series-style.ts";
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

function noteOf({ distinctBlocks, blockTokens, isSampled, bands }: CurvesDetail): string {
  const content = `${integer(distinctBlocks)} distinct blocks of ${integer(blockTokens)} tokens.`;
  const over = [...new Set(bands.flatMap((band) => band.over))];
  const across = over.length > 0 ? ` over ${over.join(" and ")}; lines: the mean` : "";
  const sampled = isSampled ? ` Estimated from a sample. Bands: 95 % intervals${across}.` : "";
  const banded = !isSampled && across ? ` Bands: lowest to highest${across}.` : "";
  return content + sampled + banded;
}

/** A line for each band whose curves have the metric; bounds are dashed. */
function linesOf({ curves, bands, metric: main, isSampled }: CurvesDetail, metric: string): Line[] {
  const drawn = bands.filter(({ curves: [first] }) => curves[first].points.some(({ hitRatio }) => metric in hitRatio));
  const names = [
    ({ curves: [first] }: Band) => curves[first].preset ?? "",
    ({ curves: [first] }: Band) => curves[first].index,
    ({ rules }: Band) => rules.join(" "),
  ].filter((of) => new Set(bands.map(of)).size > 1);
  const evictionOf = ({ curves: [first] }: Band) => curves[first].eviction;
  const labelOf = (band: Band) => [evictionOf(band), ...names.map((of) => of(band))].filter(Boolean).join(", ");
  const styles = seriesStyles(
    bands.filter((band) => evictionOf(band) !== "bound").map((band) => [labelOf(band), evictionOf(band)]),
  );
  const hasIntervals = isSampled && metric === main;
  return drawn.map((band): Line => {
    const members = band.curves.map((number) => curves[number].points);
    return {
      label: labelOf(band),
      style: styles.get(labelOf(band)) ?? boundStyle,
      isBound: evictionOf(band) === "bound",
      points: members[0].map(({ blocks }, i) => {
        const at = members.map((points) => points[i]);
        const values = at.map(({ hitRatio }) => hitRatio[metric]);
        const y = values.reduce((sum, value) => sum + value, 0) / values.length;
        const limits = hasIntervals ? at.flatMap(({ low, high }) => [low, high]) : values;
        const [low, high] = [Math.min(...limits), Math.max(...limits)];
        const range = low === high ? "" : `\n${percent(low)} to ${percent(high)}`;
        return { x: blocks, y, low, high, text: `${percent(y)}\n${integer(blocks)} blocks${range}` };
      }),
    };
  });
}

type Band = CurvesDetail["bands"][number];
