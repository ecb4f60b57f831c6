// Draws docs/hit-ratio.svg: hit ratio against capacity for every policy on the built-in example. `npm run figure`
import { writeFileSync } from "node:fs";
import { format } from "d3-format";
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { replayTrace } from "../core/replica/replay.ts";
import { BlockKeys } from "../core/trace/content.ts";
import { readTrace } from "../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../policies/registry.ts";
import { chatSource } from "../traces/generators/chat.ts";

const width = 760;
const height = 400;
const margin = { top: 44, right: 132, bottom: 52, left: 62 };

const curves = [
  { name: "belady", label: "offline optimum", colour: "#57606a", dash: "5 4", at: 7, side: "above" },
  { name: "lru", label: "LRU", colour: "#0969da", dash: "", at: 14, side: "above" },
  { name: "fifo", label: "FIFO", colour: "#bc4c00", dash: "", at: 14, side: "below" },
  { name: "random", label: "random", colour: "#8250df", dash: "", at: 14, side: "below" },
];

const trace = await readTrace(chatSource());
const { unitTokens } = trace;
const blocks = new BlockKeys({ unitTokens, blockTokens: unitTokens }).of(trace);
const shares = Array.from({ length: 22 }, (_, i) => 0.005 * 200 ** (i / 21));

function hitRatio(eviction: string, share: number): number {
  const { counters } = replayTrace(
    trace,
    {
      index: indexRegistry.get("hash-table"),
      eviction: evictionRegistry.get(eviction),
      allocator: allocatorRegistry.get("block"),
      scheduler: schedulerRegistry.get("naive"),
      blockTokens: unitTokens,
      blocks: Math.max(1, Math.round(share * blocks.distinct)),
      rules: {},
      seed: 1,
    },
    blocks,
  ).cache;
  return counters.hitBlocks / counters.lookupBlocks;
}

const unlimited = hitRatio("unbounded", 1);
const x = scaleLog([shares[0], 1], [margin.left, width - margin.right]);
const y = scaleLinear([0, 0.9], [height - margin.bottom, margin.top]);
const percent = format(".1~%");
const path = line<[number, number]>(
  ([share]) => x(share),
  ([, ratio]) => y(ratio),
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
  const points = shares.map((share): [number, number] => [share, hitRatio(name, share)]);
  parts.push(`<path d="${path(points)}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`);
  const [share, ratio] = points[at];
  const place =
    side === "above"
      ? `x="${x(share) - 8}" y="${y(ratio) - 8}" text-anchor="end"`
      : `x="${x(share) + 6}" y="${y(ratio) + 16}"`;
  parts.push(`<text ${place} fill="${colour}" font-weight="600">${label}</text>`);
}

const requests = format(",")(trace.requestCount);
const title = `Prefix-cache hit ratio by capacity: ${requests} requests of generated chat`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f" role="img" aria-label="${title}">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="${margin.left}" y="24" font-size="15" font-weight="600">${title}</text>
${parts.join("\n")}
<text x="${(margin.left + width - margin.right) / 2}" y="${height - 10}" text-anchor="middle">cache size, share of the trace's ${format(",")(blocks.distinct)} distinct blocks of ${unitTokens} tokens</text>
<text transform="translate(18 ${(margin.top + height - margin.bottom) / 2}) rotate(-90)" text-anchor="middle">cached prefix blocks ÷ prompt blocks</text>
</svg>
`;
writeFileSync(new URL("../docs/hit-ratio.svg", import.meta.url), svg);
console.log("docs/hit-ratio.svg");
