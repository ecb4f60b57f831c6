import { format } from "d3-format";
import { scaleLinear, scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import { families } from "./families.ts";
import { type Curve, gapClosed, grouped, type Measured, shares } from "./measure.ts";

const width = 1040;
const ink = "#24292f";
const grey = "#57606a";
const palette = ["#0969da", "#bc4c00", "#8250df", "#1a7f37", "#bf3989", "#9a6700", "#1b7c83"];
const percent = format(".0%");
const grouping = format(",");
const minus = (text: string) => text.replace("-", "−");

/** A rectangle of the figure in which curves are drawn. */
interface Frame {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

interface Scales {
  readonly x: (share: number) => number;
  readonly y: (value: number) => number;
}

/** The figure of a trace: hit ratios by capacity, differences to LRU by family, and the share of the gap that each policy closes. */
export function figure(title: string, measured: Measured): string {
  const curves = measured.curves.filter(({ policy }) => policy !== "belady");
  const likeLru = grouped(curves).find(({ policy }) => policy === "lru")!.policies;
  const shown = curves.filter(({ policy }) => policy === "lru" || !likeLru.includes(policy));
  const map = heatMap(measured, shown, likeLru, { left: 728, right: 1026, top: 72 });
  const height = Math.max(map.bottom + 24, 752);
  const { requests, promptBlocks, distinctBlocks, blockTokens } = measured;
  const facts = `${grouping(requests)} requests, ${grouping(promptBlocks)} prompt blocks of ${blockTokens} tokens, ${grouping(distinctBlocks)} distinct`;
  const label = `Eviction policies by cache capacity: ${title}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="${ink}" role="img" aria-label="${label}">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="20" y="27" font-size="17" font-weight="600">${title}</text>
<text x="20" y="46" fill="${grey}">${facts}; hash table, any victims</text>
${[...hitRatios(measured, shown, { left: 62, right: 540, top: 86, bottom: 372 }), ...familyPanels(measured, shown, likeLru, height), ...map.parts].join("\n")}
</svg>
`;
}

const xOf = ({ left, right }: Pick<Frame, "left" | "right">) => scaleLog([shares[0], shares.at(-1)!], [left, right]);

const pathOf = ({ x, y }: Scales, values: readonly number[]) =>
  line<number>(
    (_, i) => Math.round(10 * x(shares[i])) / 10,
    (value) => Math.round(10 * y(value)) / 10,
  )(values);

const bandOf = ({ x, y }: Scales, least: readonly number[], most: readonly number[]) =>
  area<number>(
    (_, i) => Math.round(10 * x(shares[i])) / 10,
    (_, i) => Math.round(10 * y(least[i])) / 10,
    (_, i) => Math.round(10 * y(most[i])) / 10,
  )([...shares]);

const text = (x: number, y: number, content: string, attributes = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${content}</text>`;

/** Moves labels apart, in the order of their heights, and draws them with a line to the end of their curve. */
function labels(
  at: readonly { readonly y: number; readonly name: string; readonly colour: string }[],
  { right, top, bottom }: Frame,
  size: number,
): string[] {
  const sorted = at.toSorted((a, b) => a.y - b.y);
  const placed = sorted.map(({ y }) => y);
  for (let i = 1; i < placed.length; i++) placed[i] = Math.max(placed[i], placed[i - 1] + size + 1);
  const lowest = bottom - 1;
  for (let i = placed.length - 1; i >= 0; i--)
    placed[i] = Math.min(placed[i], i === placed.length - 1 ? lowest : placed[i + 1] - size - 1);
  for (let i = 0; i < placed.length; i++) placed[i] = Math.max(placed[i], top + i * (size + 1));
  return sorted.flatMap(({ y, name, colour }, i) => [
    `<path d="M${right + 2},${y.toFixed(1)}L${right + 11},${placed[i].toFixed(1)}" stroke="${colour}" stroke-width="0.8" fill="none"/>`,
    text(right + 14, placed[i] + size * 0.34, name, `fill="${colour}" font-size="${size}" font-weight="600"`),
  ]);
}

function axes(
  { left, right, top, bottom }: Frame,
  { x, y }: Scales,
  ticks: readonly number[],
  shown: (v: number) => string,
) {
  return [
    ...ticks.flatMap((tick) => [
      `<line x1="${left}" x2="${right}" y1="${y(tick).toFixed(1)}" y2="${y(tick).toFixed(1)}" stroke="#e6eaef"/>`,
      text(left - 7, y(tick) + 4, shown(tick), `text-anchor="end" font-size="11" fill="${grey}"`),
    ]),
    ...shares.flatMap((share) => [
      `<line x1="${x(share).toFixed(1)}" x2="${x(share).toFixed(1)}" y1="${bottom}" y2="${bottom + 4}" stroke="${grey}"/>`,
    ]),
    `<line x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}" stroke="${grey}"/>`,
    `<line x1="${left}" x2="${left}" y1="${top}" y2="${bottom}" stroke="#e6eaef"/>`,
  ];
}

/** All policies in grey; LRU, FIFO, random, and the best and the worst policy with their names. */
function hitRatios({ bound, unlimited }: Measured, curves: readonly Curve[], frame: Frame): string[] {
  const most = Math.max(unlimited, ...bound);
  const scales = { x: xOf(frame), y: scaleLinear([0, most * 1.06], [frame.bottom, frame.top]) };
  const parts = [
    text(frame.left - 42, frame.top - 14, "Block hit ratio by cache capacity", `font-size="13" font-weight="600"`),
    ...axes(frame, scales, scales.y.ticks(6), (tick) => minus(percent(tick))),
    ...shares.map((share) =>
      text(scales.x(share), frame.bottom + 18, percent(share), `text-anchor="middle" font-size="11" fill="${grey}"`),
    ),
    text(
      (frame.left + frame.right) / 2,
      frame.bottom + 36,
      "capacity, share of the trace's distinct blocks (log scale)",
      `text-anchor="middle" font-size="11" fill="${grey}"`,
    ),
    ...curves.map(({ ratio }) => `<path d="${pathOf(scales, ratio)}" fill="none" stroke="#c3cad2" stroke-width="1"/>`),
    `<line x1="${frame.left}" x2="${frame.right}" y1="${scales.y(unlimited).toFixed(1)}" y2="${scales.y(unlimited).toFixed(1)}" stroke="${grey}" stroke-dasharray="1 3"/>`,
    text(frame.left + 6, scales.y(unlimited) - 5, "unlimited cache", `font-size="11" fill="${grey}"`),
    `<path d="${pathOf(scales, bound)}" fill="none" stroke="${ink}" stroke-width="1.6" stroke-dasharray="6 4"/>`,
  ];
  const ends = [{ y: scales.y(bound.at(-1)!), name: "bound", colour: ink }];
  notable(curves).forEach(({ curve, note }, i) => {
    const colour = palette[i];
    parts.push(
      `<path d="${bandOf(scales, curve.least, curve.most)}" fill="${colour}" fill-opacity="0.18"/>`,
      `<path d="${pathOf(scales, curve.ratio)}" fill="none" stroke="${colour}" stroke-width="2.2"/>`,
    );
    ends.push({ y: scales.y(curve.ratio.at(-1)!), name: `${curve.policy}${note}`, colour });
  });
  return [...parts, ...labels(ends, frame, 12)];
}

/** LRU, FIFO and random, and of all the best and the worst by the mean over all capacities. */
function notable(curves: readonly Curve[]): { curve: Curve; note: string }[] {
  const total = ({ ratio }: Curve) => ratio.reduce((sum, value) => sum + value, 0);
  const sorted = curves.toSorted((a, b) => total(b) - total(a));
  const notes = new Map<Curve, string>();
  for (const name of ["lru", "fifo", "random"]) {
    const curve = curves.find(({ policy }) => policy === name);
    if (curve) notes.set(curve, "");
  }
  notes.set(sorted[0], ": best mean");
  notes.set(sorted.at(-1)!, ": worst mean");
  return [...notes].map(([curve, note]) => ({ curve, note }));
}

/** Small panels, one for each family: hit ratio less that of LRU, in percentage points. */
function familyPanels(
  { bound }: Measured,
  curves: readonly Curve[],
  likeLru: readonly string[],
  height: number,
): string[] {
  const lru = curves.find(({ policy }) => policy === "lru")!;
  const less = (values: readonly number[]) => values.map((value, i) => 100 * (value - lru.ratio[i]));
  const high = Math.max(...less(bound), 0);
  const low = Math.max(-high, Math.min(...curves.flatMap(({ least }) => less(least)), -high / 8));
  const [columns, top] = [3, 446];
  const panelHeight = (height - top - 34) / 2;
  const note =
    "Bands: least to largest value over both orders of a request's blocks and, for random policies, 5 seeds. Cut off far below LRU.";
  const clipped = (path: string, p: number) => path.replace("<path", `<path clip-path="url(#family${p})"`);
  const parts = [
    text(
      20,
      top - 12,
      "Hit ratio less that of LRU, percentage points, by family and capacity",
      `font-size="13" font-weight="600"`,
    ),
    text(20, height - 12, note, `font-size="11" fill="${grey}"`),
  ];
  families.forEach(({ name, policies }, p) => {
    const left = 50 + (p % columns) * 228;
    const at = top + Math.floor(p / columns) * panelHeight;
    const frame = { left, right: left + 92, top: at + 24, bottom: at + panelHeight - 26 };
    const scales = { x: xOf(frame), y: scaleLinear([low, high * 1.05], [frame.bottom, frame.top]) };
    parts.push(
      text(left - 30, at + 14, name, `font-weight="600"`),
      ...axes(frame, scales, scales.y.ticks(4), (tick) => minus(format("+~g")(tick)).replace(/^[+−]0$/, "0")),
      ...[0, 3, 5].map((i) =>
        text(
          ...([scales.x(shares[i]), frame.bottom + 16, percent(shares[i])] as const),
          `text-anchor="middle" font-size="10" fill="${grey}"`,
        ),
      ),
      `<clipPath id="family${p}"><rect x="${frame.left}" y="${frame.top}" width="${frame.right - frame.left}" height="${frame.bottom - frame.top}"/></clipPath>`,
      ...curves.map(({ ratio }) =>
        clipped(`<path d="${pathOf(scales, less(ratio))}" fill="none" stroke="#dfe3e8"/>`, p),
      ),
      `<path d="${pathOf(scales, less(bound))}" fill="none" stroke="${ink}" stroke-dasharray="4 3"/>`,
      `<line x1="${frame.left}" x2="${frame.right}" y1="${scales.y(0).toFixed(1)}" y2="${scales.y(0).toFixed(1)}" stroke="${grey}"/>`,
    );
    const equal = policies.filter((policy) => policy !== "lru" && likeLru.includes(policy));
    const ends = [{ y: scales.y(0), name: equal.length > 0 ? `lru and ${equal.length} equal` : "lru", colour: grey }];
    const members = curves.filter((curve) => curve !== lru && policies.includes(curve.policy));
    grouped(members).forEach((group, i) => {
      const colour = palette[i % palette.length];
      parts.push(
        clipped(
          `<path d="${bandOf(scales, less(group.least), less(group.most))}" fill="${colour}" fill-opacity="0.18"/>`,
          p,
        ),
        clipped(
          `<path d="${pathOf(scales, less(group.ratio))}" fill="none" stroke="${colour}" stroke-width="1.8"/>`,
          p,
        ),
      );
      ends.push({ y: scales.y(Math.max(low, less(group.ratio).at(-1)!)), name: group.policies.join(", "), colour });
    });
    parts.push(...labels(ends, frame, 11));
  });
  return parts;
}

const gapColour = (share: number) =>
  share >= 0
    ? scaleLinear([0, 1], ["#ffffff", "#5aa5f0"]).clamp(true)(share)
    : scaleLinear([-1, 0], ["#ee8d52", "#ffffff"]).clamp(true)(share);

/** Share of the gap between LRU and the bound that each policy closes, by capacity. */
function heatMap(
  measured: Measured,
  curves: readonly Curve[],
  likeLru: readonly string[],
  { left, right, top }: Omit<Frame, "bottom">,
) {
  const labelWidth = 108;
  const cell = (right - left - labelWidth) / shares.length;
  const rowHeight = 17;
  const from = left + labelWidth;
  const parts = [
    text(left - 4, top - 42, "Gap between LRU and the bound closed", `font-size="13" font-weight="600"`),
    text(left - 4, top - 25, "by each policy, %, by capacity", `font-size="13" font-weight="600"`),
    ...shares.map((share, i) =>
      text(from + (i + 0.5) * cell, top - 2, percent(share), `text-anchor="middle" font-size="11" fill="${grey}"`),
    ),
  ];
  let y = top + 10;
  const ranked = ({ ratio }: Curve) =>
    gapClosed(measured, ratio).reduce<number>((sum, share) => sum + Math.max(-1, share ?? 0), 0);
  for (const { name, policies } of families) {
    const members = curves.filter(({ policy }) => policies.includes(policy)).toSorted((a, b) => ranked(b) - ranked(a));
    if (members.length === 0) continue;
    parts.push(text(left - 4, y + 12, name, `font-size="11" fill="${grey}"`));
    y += 16;
    for (const { policy, ratio } of members) {
      const { length } = likeLru;
      parts.push(
        text(
          from - 6,
          y + 12.5,
          `${policy}${policy === "lru" && length > 1 ? ` and ${length - 1} equal` : ""}`,
          `text-anchor="end"`,
        ),
        ...gapClosed(measured, ratio).flatMap((share, i) => [
          `<rect x="${(from + i * cell).toFixed(1)}" y="${y}" width="${(cell - 1).toFixed(1)}" height="${rowHeight - 1}" fill="${share === undefined ? "#f3f5f7" : gapColour(share)}"/>`,
          text(
            from + (i + 0.5) * cell,
            y + 12,
            share === undefined ? "–" : minus((100 * share).toFixed(0)).replace(/^−0$/, "0"),
            `text-anchor="middle" font-size="${share !== undefined && share < -9.99 ? 9 : 11}" fill="${share === undefined ? grey : ink}"`,
          ),
        ]),
      );
      y += rowHeight;
    }
    y += 5;
  }
  parts.push(
    text(left - 4, y + 10, "0: LRU. 100: the bound. –: gap below 0.5 points", `font-size="11" fill="${grey}"`),
  );
  return { parts, bottom: y + 10 };
}
