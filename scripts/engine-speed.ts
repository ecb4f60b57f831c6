// Writes docs/engine-speed.md and docs/prefill.svg: the speed of the engine on this machine, with the commands. Takes some
// minutes; the machine should be idle. KVLAB_LLAMA_CPP is a folder that contains node-llama-cpp.
//   npx tsx scripts/engine-speed.ts

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { scaleLog, scalePoint } from "d3-scale";
import { line } from "d3-shape";
import { cachedShares, contexts, type Prefill, prefills, smallConfig, threads } from "../bench/engine.ts";
import { defaultBackend } from "../engine/backends.ts";

import { randomConfig } from "../engine/model/random.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const run = (program: string, ...args: readonly string[]) =>
  execFileSync(process.execPath, ["--import", "tsx", program, ...args], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  }).trim();
const block = (command: string, output: string) => `\`\`\`sh\n${command}\n\`\`\`\n\n\`\`\`text\n${output}\n\`\`\``;

const shareNames = ["0", "1/2", "7/8", "15/16"];
const colours = ["#0969da", "#8250df", "#bc4c00", "#1a7f37"];

const [width, height] = [760, 400];
const margin = { top: 44, right: 132, bottom: 52, left: 62 };
const x = scalePoint<number>(cachedShares, [margin.left + 30, width - margin.right]);

/** Prefill time by cached share, and the time expected from the remaining operations. */
function figure(cells: readonly Prefill[]): string {
  const all = cells.map(({ ms }) => ms);
  const y = scaleLog([Math.min(...all) / 1.5, Math.max(...all) * 1.3], [height - margin.bottom, margin.top]);
  const curves = contexts.map((context, i) => {
    const own = cells.filter((cell) => cell.context === context);
    return curve(own, colours[i], y, `${context.toLocaleString("en-US")} tokens`);
  });
  const title = "Time of a prefill by the share of the prompt that is cached";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f" role="img" aria-label="${title}">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="${margin.left}" y="24" font-size="15" font-weight="600">${title}</text>
${[...ticks(y), ...curves].join("\n")}
<text x="${(margin.left + width - margin.right) / 2}" y="${height - 10}" text-anchor="middle">share of the prompt that is cached (dotted: expected from the remaining operations)</text>
<text transform="translate(18 ${(margin.top + height - margin.bottom) / 2}) rotate(-90)" text-anchor="middle">milliseconds</text>
</svg>
`;
}

type Scale = ReturnType<typeof scaleLog<number, number>>;

function ticks(y: Scale): string[] {
  const [low, high] = y.domain();
  const shown = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter((ms) => ms > low && ms < high);
  return [
    ...shown.map(
      (ms) =>
        `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(ms)}" y2="${y(ms)}" stroke="#d8dee4"/>` +
        `<text x="${margin.left - 8}" y="${y(ms) + 4}" text-anchor="end">${ms.toLocaleString("en-US")}</text>`,
    ),
    ...cachedShares.map(
      (share, i) =>
        `<text x="${x(share)}" y="${height - margin.bottom + 20}" text-anchor="middle">${shareNames[i]}</text>`,
    ),
  ];
}

function curve(own: readonly Prefill[], colour: string, y: Scale, label: string): string {
  const path = (ms: (cell: Prefill) => number) =>
    line<Prefill>(
      ({ share }) => x(share)!,
      (cell) => y(ms(cell)),
    )(own);
  const last = own[own.length - 1];
  return [
    `<path d="${path(({ fewerOperations }) => own[0].ms / fewerOperations)}" fill="none" stroke="${colour}" stroke-dasharray="2 4"/>`,
    `<path d="${path(({ ms }) => ms)}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    ...own.map(({ share, ms }) => `<circle cx="${x(share)}" cy="${y(ms)}" r="3.5" fill="${colour}"/>`),
    `<text x="${x(last.share)! + 10}" y="${y(last.ms) + 4}" fill="${colour}" font-weight="600">${label}</text>`,
  ].join("\n");
}

function table(cells: readonly Prefill[]): string {
  const of = (context: number, share: number) =>
    cells.find((cell) => cell.context === context && cell.share === share)!;
  const rows = contexts.map((context) => {
    const texts = cachedShares.map((share) => {
      const { ms, speedup, fewerOperations } = of(context, share);
      const time = `${ms.toFixed(ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
      if (share === 0) return time;
      return `${time}: ${speedup.toFixed(1)} × of ${fewerOperations.toFixed(1)} (${((100 * speedup) / fewerOperations).toFixed(0)} %)`;
    });
    return `| ${[context.toLocaleString("en-US"), ...texts].join(" | ")} |`;
  });
  return [
    `| context | ${shareNames.map((name) => `${name} cached`).join(" | ")} |`,
    "| --- | --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}

const gemm = (gflops: number) => `${gflops.toFixed(0)} GFLOP/s`;
const benched = (part: string) => block(`npm run bench -- ${part}`, run("bench/main.ts", part));

const large = await prefills(randomConfig("anchors"));
const small = await prefills(smallConfig);
writeFileSync(new URL("../docs/prefill.svg", import.meta.url), figure(large.cells));
const page = `# Engine speed

Measured by \`npx tsx scripts/engine-speed.ts\` when it last wrote this file. Times are those of one machine on one day; only ratios
within a run are claimed. A step is measured by its caller, the round trip to the engine's thread included. In each of five rounds the fastest of several repetitions is taken, because other programs run on the machine, and each value is the median of the rounds; peak rates are measured in every round.

## Prefill by cached share

![Time of a prefill by the share of the prompt that is cached](prefill.svg)

random:anchors (8 layers, hidden 512), fp32, ${threads} threads; matrix products run at ${gemm(large.gflops)}. "6.0 × of 7.3" means: the
prefill is 6.0 times as fast as that of the whole context, with 7.3 times fewer floating-point operations in its kernels.

${table(large.cells)}

A quarter of the size, 4 layers of 256 (products at ${gemm(small.gflops)}):

${table(small.cells)}

The speedup is below the ratio of operations for short prompts, because all weights are read even for a few rows.
Long prompts are computed in chunks of ${defaultBackend.calls.of(smallConfig).rules.longestQuery} tokens, whose attention scores fit in the processor's caches.

## Cached whole prompts

${block(`npm run -s kvlab -- experiment roseinfer --target ${defaultBackend.name} --model random:15m`, run("cli/main.ts", "experiment", "roseinfer", "--target", defaultBackend.name, "--model", "random:15m"))}

## Compared with the machine's peak rates

Decoding is bound by memory bandwidth: each step reads all weights except the embeddings, and the KV of every sequence. More than
100 % is possible if a part of the weights stays in the last-level cache.

${benched("engine")}

## Compared with llama.cpp

Measured alternately, with the same weights and prompts; llama.cpp with the better of one and two threads for each value.

${benched("llama-cpp")}
`;
writeFileSync(new URL("../docs/engine-speed.md", import.meta.url), page);
console.log("docs/engine-speed.md, docs/prefill.svg");
