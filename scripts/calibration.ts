// The prediction error of the simulator for the engine's times: docs/calibration.md.   npx tsx scripts/calibration.ts NAME …
// serves these workloads with the engine, twice each, interleaved with designed steps (six minutes each)
//   npx tsx scripts/calibration.ts plot     measures designed steps alone, for the plot (three minutes)
//   npx tsx scripts/calibration.ts write    writes the page from all measurements
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defaultBackend } from "../engine/backends.ts";
import { randomConfig } from "../engine/model/random.ts";
import { kindLabels } from "../lab/calibrate/measured-steps.ts";
import type { RunReport } from "../lab/output/report.ts";
import type { VerifyReport } from "../lab/verify/verify-report.ts";
import type { ChatOptions } from "../traces/generators/chat.ts";
import { chatSource } from "../traces/generators/chat.ts";
import { writeMooncake } from "../traces/write-mooncake.ts";

interface Workload {
  readonly about: string;
  readonly chat: Partial<ChatOptions>;
  readonly rate: number;
  readonly options: readonly string[];
}

const [, , farContextTokens] = defaultBackend.calls.of(randomConfig("160m")).loads;
const model = ["--model", "random:160m", "--threads", "1"];
/** Rounds of designed steps; in a single round, a slow phase of some seconds would affect only some kinds of steps. */
const rounds = 2;
/** Tokens of the longest prompt. */
const longestPrompt = 480;
const chatRequests = 100;
const common: Partial<ChatOptions> = {
  ...{
    requests: chatRequests,
    seed: 17,
    systemPrompts: 20,
    systemTokens: 100,
    turns: 4,
    userTokens: 40,
    outputTokens: 16,
  },
  ...{ thinkS: 10, sessionsPerS: 1, maxInputTokens: longestPrompt },
};
const vllm = ["--preset", "vllm", "--blocks", "2000"];
const workloads: Readonly<Record<string, Workload>> = {
  base: { about: "vLLM's policy, 0.7 requests a second", chat: common, rate: 0.7, options: vllm },
  longer: {
    about: "prompts twice as long, outputs half as long",
    chat: { ...common, seed: 19, systemTokens: 200, userTokens: 100, outputTokens: 8 },
    rate: 0.8,
    options: vllm,
  },
  sglang: {
    about: "SGLang's policy, a small cache",
    chat: { ...common, seed: 20 },
    rate: 0.8,
    options: ["--preset", "sglang", "--blocks", "300"],
  },
  knee: {
    about: "2 requests a second, close to the engine's limit, batches of up to 8",
    chat: { ...common, seed: 21 },
    rate: 2,
    options: [...vllm, "--scheduler-option", "max-num-seqs=8"],
  },
  flood: {
    about: "4 requests a second, above the engine's limit, batches of up to 8",
    chat: { ...common, seed: 22 },
    rate: 4,
    options: [...vllm, "--scheduler-option", "max-num-seqs=8"],
  },
};

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = `${root}runs/calibration`;
const tsx = fileURLToPath(import.meta.resolve("tsx"));

const kvlab = (...args: readonly string[]) =>
  execFileSync(process.execPath, ["--import", tsx, `${root}cli/main.ts`, ...args], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 28,
  });

/** Jiffies of all programs, and of this program's ended children (proc(5)). */
function usedJiffies(): { readonly all: number; readonly own: number } {
  const [user, nice, system] = readFileSync("/proc/stat", "utf8")
    .split("\n")[0]
    .trim()
    .split(/ +/)
    .slice(1)
    .map(Number);
  const mine = readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ");
  return { all: user + nice + system, own: [11, 12, 13, 14].reduce((sum, at) => sum + Number(mine[at]), 0) };
}

interface Measured extends VerifyReport {
  /** Share of other programs in the processor time that was used during the run. */
  readonly otherProgramsShare: number;
}

async function serve(name: string): Promise<void> {
  const { chat, rate, options } = workloads[name];
  if (!existsSync(`${folder}/${name}.jsonl`)) await writeMooncake(chatSource(chat), `${folder}/${name}.jsonl`);
  const before = usedJiffies();
  const text = kvlab(
    "verify",
    `${name}.jsonl`,
    "--rate",
    `${rate}`,
    ...model,
    ...options,
    "--calibrate",
    `${rounds}`,
    "--json",
  );
  const after = usedJiffies();
  const otherProgramsShare = 1 - (after.own - before.own) / (after.all - before.all);
  const measured: Measured = { ...JSON.parse(text), otherProgramsShare };
  writeFileSync(`${folder}/${name}.json`, JSON.stringify(measured));
  const withTarget = measured.times!.filter(({ figure }) => targets[figure] !== undefined);
  console.log(
    name,
    Object.fromEntries(withTarget.map(({ figure, noise, error }) => [figure, [signed(noise!), signed(error!)]])),
  );
}

/** Factors on all step durations, which show the metrics that depend on the errors of single steps. */
const factors = [0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03];

/** A workload's metrics, simulated with the cost model that was fitted during any of the workloads. */
function simulated(name: string, { engine, calibration }: Measured, factor = 1): (figure: string) => number {
  const { rate, options } = workloads[name];
  const picoseconds = Object.fromEntries(
    calibration!.coefficients.map((one) => [one.name, Math.round(one.picoseconds * factor)]),
  );
  writeFileSync(`${folder}/scaled.json`, JSON.stringify({ schema: "cost/1", calls: engine.calls, picoseconds }));
  const args = ["--rate", `${rate}`, ...options, "--target", "sim", "--gpu", defaultBackend.name];
  args.push("--cost", "scaled.json", "--no-save", "--json");
  const { latency, throughput, cache } = JSON.parse(kvlab("replay", `${name}.jsonl`, ...args)) as RunReport;
  return (figure) => {
    const [kind, part] = figure.split(" ") as ["ttftMs" | "tpotMs" | "e2eMs", "mean"];
    if (part) return figure === "hitRatio token" ? cache.hitRatio.token : latency![kind]![part];
    return throughput![figure as "makespanS"];
  };
}

/** The range of each simulated metric over these factors. */
function ranges(name: string, measured: Measured): Map<string, readonly [least: number, most: number]> {
  const found = factors.map((factor) => simulated(name, measured, factor));
  return new Map(
    measured.times!.map(({ figure }) => {
      const values = found.map((of) => of(figure));
      return [figure, [Math.min(...values), Math.max(...values)]];
    }),
  );
}

/** The largest prediction error that reaches the target. */
const targets: Readonly<Record<string, number>> = {
  outputTokensPerS: 0.03,
  ...{ "ttftMs mean": 0.05, "e2eMs mean": 0.05 },
  ...{ "ttftMs p99": 0.1, "tpotMs p99": 0.1, "e2eMs p99": 0.1 },
};

const labels: Readonly<Record<string, string>> = {
  ...{ ttftMs: "TTFT, ms:", tpotMs: "TPOT, ms:", e2eMs: "latency, ms:", requestsPerS: "requests/s" },
  ...{ outputTokensPerS: "output tokens/s", makespanS: "makespan, s", hitRatio: "hit ratio, by" },
};

const signed = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;
const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const number = (value: number) => (value < 1 ? value.toFixed(3) : Number(value.toPrecision(4)).toLocaleString("en-US"));

function table(name: string, measured: Measured): string {
  const { times, otherProgramsShare, decisions, identical, steps } = measured;
  const between = ranges(name, measured);
  const rows = times!.map(({ figure, engine, again, noise, simulated, error }) => {
    const target = targets[figure];
    const isMissed = target !== undefined && Math.abs(error!) > target;
    const [least, most] = between.get(figure)!;
    return row([
      figure.replace(/^\w+/, (word) => labels[word]),
      ...[engine, again].map((value) => number(value!)),
      signed(noise!),
      number(simulated!),
      isMissed ? `**${signed(error!)}**` : signed(error!),
      `${number(least)} – ${number(most)}`,
      target === undefined ? "" : `${100 * target} %`,
    ]);
  });
  return [
    `### ${name}: ${workloads[name].about}\n`,
    row(["", "engine", "again", "noise", "simulated", "error", "± 3 %", "target"]),
    row(["---", ...Array(7).fill("---:")]),
    ...rows,
    `\nWith the durations of the engine's steps, ${identical ? "all" : "NOT all"} ${decisions.toLocaleString("en-US")} decisions in ${steps.toLocaleString("en-US")} steps are identical. Other programs took ${(100 * otherProgramsShare).toFixed(0)} % of the used processor time.`,
  ].join("\n");
}

/** The number of targets, of those reached, and of missed ones whose error is within the noise. */
function reached(all: readonly Measured[]) {
  const withTarget = all.flatMap(({ times }) => times!.filter(({ figure }) => targets[figure] !== undefined));
  const missed = withTarget.filter(({ figure, error }) => Math.abs(error!) > targets[figure]);
  return {
    targets: withTarget.length,
    within: withTarget.length - missed.length,
    withinNoise: missed.filter(({ error, noise }) => Math.abs(error!) <= Math.abs(noise!)).length,
  };
}

type FitReport = NonNullable<Measured["calibration"]>;

/** A column for each fit. */
function coefficients(fits: readonly (readonly [name: string, fit: FitReport])[]): string {
  const micro = (ps: number) => (ps / 1e6).toPrecision(3);
  const names = [...new Set(fits.flatMap(([, { coefficients }]) => coefficients.map(({ name }) => name)))];
  const of = (fit: FitReport, coefficient: string) => fit.coefficients.find(({ name }) => name === coefficient);
  const last = fits.at(-1)![1];
  return [
    row(["µs", ...fits.map(([name]) => name), `95 % of *${fits.at(-1)![0]}*`]),
    row(["---", ...fits.map(() => "---:"), "---:"]),
    ...names.map((name) => {
      const found = of(last, name);
      const range = found ? `${micro(found.lowPs)} – ${micro(found.highPs)}` : "";
      return row([name, ...fits.map(([, fit]) => micro(of(fit, name)?.picoseconds ?? 0)), range]);
    }),
  ].join("\n");
}

/** A row for each kind of step. */
function residuals({ residuals: found, repeated }: FitReport): string {
  const names = ["p5", "p25", "p50", "p75", "p95"] as const;
  return [
    row(["measured ÷ fitted − 1", "steps", "mean, ms", ...names, "total"]),
    row(["---", ...Array(8).fill("---:")]),
    ...found.map((one) =>
      row([
        kindLabels[one.kind],
        String(one.steps),
        number(one.meanMs),
        ...names.map((name) => signed(one[name])),
        signed(one.total),
      ]),
    ),
    row(["same load ÷ its median", "", "", ...names.map((name) => signed(repeated![name])), ""]),
  ].join("\n");
}

const page = (all: readonly (readonly [name: string, measured: Measured])[]) => {
  const fits = all.map(([name, { calibration }]) => [name, calibration!] as const);
  const [, designed] = fits.at(-1)!;
  const { targets: targetCount, within, withinNoise } = reached(all.map(([, measured]) => measured));
  const picture = existsSync(`${root}docs/calibration.svg`)
    ? "\n\n![Residuals of kvlab calibrate by itself](calibration.svg)"
    : "";
  return `# Calibration

\`kvlab calibrate\` measures the durations of an engine's steps and fits the simulator's cost model to them:

\`\`\`sh
kvlab calibrate --model random:160m --preset vllm --out cost.json
kvlab replay trace.jsonl --target sim --preset vllm --blocks 2000 --cost cost.json
\`\`\`

\`kvlab verify --calibrate\` alternates these measurements with serving a trace, in turns of a second, and reports the simulator's prediction error.

This page was written by \`npx tsx scripts/calibration.ts write\`, from measurements on one machine on one day.

## Measured steps

The designed steps come from a trace (\`traces/calibration.ts\`) that the engine serves as any other trace. A duration includes the
whole step: planning, gathering the batch, the model, committing. Every round contains all groups once, in a random order, after a
first round that is not measured:

- prompts from 7 tokens to one less than the longest of the trace (at most ${longestPrompt}), with nothing, an eighth, a third or three quarters of them cached;
  one, two and four at once, the four of different lengths;
- decode of 1, 2, 4 and 8 requests with short and long contexts, of equal and of different lengths, because attention pads short
  ones;
- a prompt that arrives while 1, 2, 4 or 7 requests decode: mixed steps.

Each place in a group has its own shared prefix, so that the contexts of a batch are in different memory, as in serving.

## The model

The duration of a step is a sum of terms, none of which is negative. The engine divides a step into calls of the model, each of
which reads all weights; attention pads the sequences of a call to the longest one. The file of coefficients contains the rules of
this division, and the simulator applies them to its steps with the backend's \`StepLoadExtension\`, so calls and padding are terms,
too. The cost of gathering a context token rises with the number of tokens in a call, because they come from slower levels of the
CPU cache: those after the first ${farContextTokens.least.toLocaleString("en-US")} are a separate term, so that the cost stays linear beyond the measured range.

The fit minimizes squared relative errors (weights 1 ÷ fitted², iterated eight times), with residuals above three times the
typical one bounded; then all coefficients are scaled so that the sum of all steps is the measured one, except pauses (more than twice the fitted
time). The intervals contain 95 % of 400 samples of a seeded bootstrap over 40 stretches of successive steps, because a slow phase of
the machine lasts for many steps. Single coefficients are less certain than their sum: \`step\` and \`calls\` both count 1 in nearly
every decode step, so either may include the other.

${designed.about}; ${designed.steps.toLocaleString("en-US")} steps, and nearly as many for each of the workloads below, with its policy.

${coefficients(fits)}

Residuals of the fit for *${fits.at(-1)![0]}*:

${residuals(designed)}

The last row is the spread of steps of the same load around their median, which no model can explain.${picture}

- \`--from RUN\` fits to the steps of a saved run instead, of the engine or of the simulator, with its own mix of loads.
- \`kvlab calibrate TRACE --from LOG\` fits to a log of vLLM's requests (requests.jsonl, meta.json, config.json), which has no steps:
  the time between two tokens is the sum of the steps between them, and a simulation determines these steps, repeatedly with the
  fitted coefficients.
- Loads that no measured step has (in the designed steps: copied blocks, swapped tokens) cost nothing; fit to a run that has them.
- Models with sliding windows are fitted to their whole contexts, of which the engine gathers only a part; fit to the steps of a run.

## Operator profiles

\`\`\`sh
kvlab calibrate --model random:15m --profile ./my-15m
kvlab replay trace.jsonl --target sim --preset vllm --blocks 2000 --cost profile:./my-15m
\`\`\`

\`--profile\` measures the executor's steps on a grid of shapes instead: prompts of one block without logits, decodes with and without
logits, chunks over cached tokens, alone and beside decodes. Each step is measured once a round, in a random order, after a round
that is discarded; the medians are divided into dense layers, logits and attention, whose sum is the measured time at each point of the
grid (sim/profiles/README.md). Nothing is fitted. Unlike a fit, a profile extrapolates beyond its grid along its last points, so
\`--max-prompt\` and \`--max-batch\` have to cover the trace. The engine's planning between steps is not in it.

The prediction error follows from the machine's speed during the two measurements, which are minutes apart. On an idle machine with
two cores (2026-11-23), four profiles of random:15m and three runs of its engine were measured alternately:

\`\`\`sh
kvlab trace generate chat --requests 300 --seed 3 --sessions-per-s 0.4 --system-tokens 120 --user-tokens 40 \\
  --output-tokens 40 --think-s 5 --max-input-tokens 900 --out chat.jsonl
kvlab calibrate --model random:15m --threads 1 --max-prompt 1024 --max-batch 16 --profile ./my-15m
kvlab replay chat.jsonl --preset vllm --blocks 2000 --speed 1.2 --model random:15m --target ${defaultBackend.name} --threads 1
kvlab replay chat.jsonl --preset vllm --blocks 2000 --speed 1.2 --model random:15m --target sim --cost profile:./my-15m
\`\`\`

| mean | engine, three runs | simulated, four profiles | median ÷ median − 1 |
| --- | ---: | ---: | ---: |
| TTFT, ms | 30.8 – 37.0 | 26.6 – 40.2 | +7 % |
| TPOT, ms | 8.5 – 10.7 | 8.4 – 12.2 | +4 % |
| latency, ms | 369 – 471 | 369 – 540 | +8 % |

Nothing is fitted to the runs. A single profile predicts a single run within −28 to +46 % only, because equal runs differ by up to 28 %
and equal profiles by up to 51 % here; on such a machine use the medians of several. Beside ten other programs half of the measurements
were between −19 and +31 % of the median of their step, and the prediction was of no use: check the spread that the command prints
(−10 to +13 % and less in the profiles of the table).

## Prediction error

\`\`\`sh
npx tsx scripts/calibration.ts ${all.map(([name]) => name).join(" ")} write
\`\`\`

Each workload is served twice, by two engines in one process that take turns with a third one, which serves the designed steps
(\`kvlab verify TRACE --calibrate ${rounds}\`): the engine with the smallest completed share runs next, for a second or a little more. All three share the weights. *Noise*
is the second run ÷ the first − 1. *Simulated* is the simulation with the cost model that is fitted to the designed steps alone, and
*error* is simulated ÷ the mean of both runs − 1, in bold if it misses its target. *± 3 %* is the range of the simulated metric if
all steps take 3 % less to 3 % more, in seven simulations: single steps have errors of that size. If the range is wide, the metric
depends on whether a request arrived just before or just after the start of a step, as P99 of ${chatRequests} requests does. The workloads are ${chatRequests} requests of chat
sessions (\`scripts/calibration.ts\` has the options); arrival rate, lengths, policy, cache size and batch limit
differ, while the designed steps are measured with the policy of the workload.

**The simulator reaches ${within} of ${targetCount} targets${withinNoise === 0 ? "" : `; ${withinNoise} of the others are within the noise between the two runs`}.**

The same errors with the cost model that was fitted during *${all[0][0]}* for all workloads, minutes apart. The last column is the mean duration of the same
designed decode steps during each workload, which varies with the machine; where requests queue, each percent of it changes their
times by several percent:

${withFirst(all)}

Engines take turns because the machine, two cores that are shared with other programs, has phases of minutes in which everything
takes up to a fifth longer. Measured one after the other (designed steps, then the workload twice, then designed steps again), the
second run of the engine differed by up to 16 % from the first in mean latency, and 6 of 24 targets were reached; taking turns showed
that the engine itself caused a part of it (docs/decisions.md, "Engine"). Latencies vary more than step durations, because waiting
requests delay others. Throughput tests the model only if requests arrive faster than the engine can serve them (*flood*); otherwise
the engine has idle time.

${all.map(([name, measured]) => table(name, measured)).join("\n\n")}
`;
};

/** The errors of all workloads with the cost model that was fitted during the first. */
function withFirst(all: readonly (readonly [name: string, measured: Measured])[]): string {
  const [, fitted] = all[0];
  const metrics = Object.keys(targets);
  const rows = all.map(([name, { times, calibration }]) => {
    const of = simulated(name, fitted);
    const errors = metrics.map((metric) => {
      const { engine, again } = times!.find(({ figure }) => figure === metric)!;
      const error = of(metric) / ((engine! + again!) / 2) - 1;
      return Math.abs(error) > targets[metric] ? `**${signed(error)}**` : signed(error);
    });
    const decode = calibration!.residuals.find(({ kind }) => kind === "answers")!;
    return row([name, ...errors, number(decode.meanMs)]);
  });
  const heads = [
    ...metrics.map((figure) => figure.replace(/^\w+/, (word) => labels[word])),
    "designed decode, ms: mean",
  ];
  return [row(["", ...heads]), row(["---", ...heads.map(() => "---:")]), ...rows].join("\n");
}

/** Writes the plot of residuals, from a separate measurement. */
function plot(): void {
  const options = [
    "--max-prompt",
    String(longestPrompt),
    "--max-batch",
    "8",
    "--rounds",
    `${rounds}`,
    "--out",
    "cost.json",
  ];
  kvlab("calibrate", ...model, "--preset", "vllm", ...options, "--plot", `${root}docs/calibration.svg`);
}

function write(): void {
  const served = Object.keys(workloads).filter((name) => existsSync(`${folder}/${name}.json`));
  const all = served.map((name): [string, Measured] => [
    name,
    JSON.parse(readFileSync(`${folder}/${name}.json`, "utf8")),
  ]);
  writeFileSync(`${root}docs/calibration.md`, page(all));
}

mkdirSync(folder, { recursive: true });
const parts = process.argv.slice(2);
const known = [...Object.keys(workloads), "plot", "write"];
if (parts.length === 0 || !parts.every((part) => known.includes(part))) {
  console.error(`expected one or more of ${known.join(", ")}`);
  process.exit(2);
}
for (const part of parts) {
  if (part === "write") write();
  else if (part === "plot") plot();
  else await serve(part);
}
