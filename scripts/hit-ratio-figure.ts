// Draws docs/hit-ratio.svg: hit ratio against capacity on the built-in example, with a band over both values of free-order and
// five seeds. `npm run figure`
import { writeFileSync } from "node:fs";
import { format } from "d3-format";
import { scaleLinear, scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import { hitRatioCurves } from "../lab/curve/curves.ts";

const width = 760;
const height = 400;
const margin = { top: 44, right: 132, bottom: 52, left: 62 };

const curves = [
  { name: "belady", label: "offline optimum", colour: "#57606a", dash: "5 4", at: 7, side: "above" },
  { name: "lru", label: "LRU", colour: "#0969da", dash: "", at: 14, side: "above" },
  { name: "fifo", label: "FIFO", colour: "#bc4c00", dash: "", at: 14, side: "below" },
  { name: "random", label: "random", colour: "#8250df", dash: "", at: 14, side: "below" },
];

const shares = Array.from({ length: 22 }, (_, i) => 0.005 * 200 ** (i / 21));
const { report } = await hitRatioCurves("example", {
  blocks: shares.map((share) => ({ share })),
  eviction: curves.map(({ name }) => name),
  rules: { "free-order": ["reverse", "forward"] },
  seed: [1, 2, 3, 4, 5],
});
const { distinctBlocks, blockTokens, bands = [] } = report;

/** By share: the mean of the curves of a policy, and the lowest and highest hit ratio. */
function bandOf(name: string) {
  const band = bands.find(({ eviction }) => eviction === name)!;
  return band.points.map(({ low, high }, i) => {
    const ratios = band.curves.map((curve) => report.curves[curve].points[i].hitRatio.block!);
    return { share: shares[i], mean: ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length, low, high };
  });
}
type Point = ReturnType<typeof bandOf>[number];

// A cache of all distinct blocks evicts nothing.
const unlimited = bandOf("lru").at(-1)!.high;
const x = scaleLog([shares[0], 1], [margin.left, width - margin.right]);
const y = scaleLinear([0, 0.9], [height - margin.bottom, margin.top]);
const percent = format(".1~%");
const path = line<Point>(
  ({ share }) => x(share),
  ({ mean }) => y(mean),
);
const around = area<Point>(
  ({ share }) => x(share),
  ({ low }) => y(low),
  ({ high }) => y(high),
);

const parts: string[] = [];
for (const tick of y.ticks(5)) {
  parts.push(
    `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(tick)}" y2="${y(tick)}" stroke="#d8dee4"/>`,
  );
  parts.push(`<text x="${margin.left - 8}" y="${y(tick) + 4}" text-anchor="end">${tick.toFixed(1)}</text>`);
}
for (const tick of [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]) {
  parts.push(
    `<line x1="${x(tick)}" x2="${x(tick)}" y1="${height - margin.bottom}" y2="${height - margin.bottom + 5}" stroke="#57606a"/>`,
  );
  parts.push(`<text x="${x(tick)}" y="${height - margin.bottom + 20}" text-anchor="middle">${percent(tick)}</text>`);
}
parts.push(
  `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(unlimited)}" y2="${y(unlimited)}" stroke="#57606a" stroke-dasharray="1 3"/>`,
);
parts.push(`<text x="${width - margin.right + 8}" y="${y(unlimited) - 6}" fill="#57606a">unlimited cache</text>`);

for (const { name, label, colour, dash, at, side } of curves) {
  const points = bandOf(name);
  parts.push(`<path d="${around(points)}" fill="${colour}" fill-opacity="0.35"/>`);
  parts.push(
    `<path d="${path(points)}" fill="none" stroke="${colour}" stroke-width="1.5" stroke-dasharray="${dash}"/>`,
  );
  const { share, mean } = points[at];
  const place =
    side === "above"
      ? `x="${x(share) - 8}" y="${y(mean) - 8}" text-anchor="end"`
      : `x="${x(share) + 6}" y="${y(mean) + 16}"`;
  parts.push(`<text ${place} fill="${colour}" font-weight="600">${label}</text>`);
}

const requests = format(",")(report.trace.requests);
const title = `Prefix-cache hit ratio by capacity: ${requests} requests of generated chat`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f" role="img" aria-label="${title}">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="${margin.left}" y="24" font-size="15" font-weight="600">${title}</text>
${parts.join("\n")}
<text x="${(margin.left + width - margin.right) / 2}" y="${height - 10}" text-anchor="middle">cache size, share of the trace's ${format(",")(distinctBlocks)} distinct blocks of ${blockTokens} tokens</text>
<text x="${width - margin.right}" y="${height - margin.bottom - 10}" text-anchor="end" fill="#57606a" font-size="12">bands: both tie orders, five seeds; lines: the mean</text>
<text transform="translate(18 ${(margin.top + height - margin.bottom) / 2}) rotate(-90)" text-anchor="middle">cached prefix blocks ÷ prompt blocks</text>
</svg>
`;
writeFileSync(new URL("../docs/hit-ratio.svg", import.meta.url), svg);
console.log("docs/hit-ratio.svg");
