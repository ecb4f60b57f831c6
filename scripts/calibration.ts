// The prediction error of the simulator for the engine's times: docs/calibration.md.
//   npx tsx scripts/calibration.ts NAME …   serves these workloads with the engine, twice each, in turn with designed steps (six minutes each)
//   npx tsx scripts/calibration.ts plot     measures designed steps alone, for the picture (three minutes)
//   npx tsx scripts/calibration.ts write    writes the page from all that was measured
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defaultBackend } from "../engine/backends.ts";
import { randomConfig } from "../engine/model/random.ts";
import type { RunReport } from "../lab/output/report.ts";
import type { VerifyReport } from "../lab/verify/verify-report.ts";
import type { ChatOptions } from "../traces/generate.ts";
import { chatSource } from "../traces/generate.ts";
import { writeMooncake } from "../traces/write-mooncake.ts";

interface Workload {
  readonly about: string;
  readonly chat: Partial<ChatOptions>;
  readonly rate: number;
  readonly options: readonly string[];
}

const [, , farContextTokens] = defaultBackend.calls.of(randomConfig("160m")).loads;
const model = ["--model", "random:160m", "--threads", "1"];
/** Of designed steps: in a single one, a phase of some seconds falls on some kinds of step and not on others. */
const rounds = 2;
/** Tokens. */
const longestPrompt = 480;
const chatRequests = 100;
const usual: Partial<ChatOptions> = {
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
  base: { about: "vLLM's policy, 0.7 requests a second", chat: usual, rate: 0.7, options: vllm },
  longer: {
    about: "prompts twice as long, answers half as long",
    chat: { ...usual, seed: 19, systemTokens: 200, userTokens: 100, outputTokens: 8 },
    rate: 0.8,
    options: vllm,
  },
  sglang: {
    about: "SGLang's policy, a cache that is too small",
    chat: { ...usual, seed: 20 },
    rate: 0.8,
    options: ["--preset", "sglang", "--blocks", "300"],
  },
  knee: {
    about: "2 requests a second, nearly all that the engine can serve, 8 at once",
    chat: { ...usual, seed: 21 },
    rate: 2,
    options: [...vllm, "--scheduler-option", "max-num-seqs=8"],
  },
  flood: {
    about: "4 requests a second, more than the engine can serve, 8 at once",
    chat: { ...usual, seed: 22 },
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

/** Jiffies of all programs, and of those that this one has started and that have ended (proc(5)). */
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
  /** Of the processor time that was used meanwhile, that of other programs. */
  readonly foreignShare: number;
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
  const foreignShare = 1 - (after.own - before.own) / (after.all - before.all);
  const measured: Measured = { ...JSON.parse(text), foreignShare };
  writeFileSync(`${folder}/${name}.json`, JSON.stringify(measured));
  const far = measured.times!.filter(({ figure }) => targets[figure] !== undefined);
  console.log(
    name,
    Object.fromEntries(far.map(({ figure, noise, error }) => [figure, [signed(noise!), signed(error!)]])),
  );
}

/** By how much all steps are made longer, to see which figures hang on less than what single steps are off by. */
const factors = [0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03];

/** A workload's figures, simulated with what was fitted to the designed steps beside any of them. */
function simulated(name: string, { engine, calibration }: Measured, factor = 1): (figure: string) => number {
  const { rate, options } = workloads[name];
  const picoseconds = Object.fromEntries(
    calibration!.coefficients.map((one) => [one.name, Math.round(one.picoseconds * factor)]),
  );
  writeFileSync(`${folder}/scaled.json`, JSON.stringify({ schema: "cost/1", calls: engine.calls, picoseconds }));
  const args = ["--rate", `${rate}`, ...options, "--target", "sim", "--cost", "scaled.json", "--no-save", "--json"];
  const { latency, throughput, cache } = JSON.parse(kvlab("replay", `${name}.jsonl`, ...args)) as RunReport;
  return (figure) => {
    const [kind, part] = figure.split(" ") as ["ttftMs" | "tpotMs" | "e2eMs", "mean"];
    if (part) return figure === "hitRatio token" ? cache.hitRatio.token : latency![kind]![part];
    return throughput![figure as "makespanS"];
  };
}

/** Of each figure, between what the simulator's are with steps that take so much less or more. */
function ranges(name: string, measured: Measured): Map<string, readonly [least: number, most: number]> {
  const found = factors.map((factor) => simulated(name, measured, factor));
  return new Map(
    measured.times!.map(({ figure }) => {
      const values = found.map((of) => of(figure));
      return [figure, [Math.min(...values), Math.max(...values)]];
    }),
  );
}

/** The largest prediction error that counts as reached. */
const targets: Readonly<Record<string, number>> = {
  outputTokensPerS: 0.03,
  ...{ "ttftMs mean": 0.05, "e2eMs mean": 0.05 },
  ...{ "ttftMs p99": 0.1, "tpotMs p99": 0.1, "e2eMs p99": 0.1 },
};

const words: Readonly<Record<string, string>> = {
  ...{ ttftMs: "TTFT, ms:", tpotMs: "TPOT, ms:", e2eMs: "latency, ms:", requestsPerS: "requests/s" },
  ...{ outputTokensPerS: "output tokens/s", makespanS: "makespan, s", hitRatio: "hit ratio, by" },
};

const signed = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;
const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const number = (value: number) => (value < 1 ? value.toFixed(3) : Number(value.toPrecision(4)).toLocaleString("en-US"));

function table(name: string, measured: Measured): string {
  const { times, foreignShare, decisions, identical, steps } = measured;
  const between = ranges(name, measured);
  const rows = times!.map(({ figure, engine, again, noise, simulated, error }) => {
    const target = targets[figure];
    const isMissed = target !== undefined && Math.abs(error!) > target;
    const [least, most] = between.get(figure)!;
    return row([
      figure.replace(/^\w+/, (word) => words[word]),
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
    `\nWith the durations of the engine's steps, ${identical ? "all" : "NOT all"} ${decisions.toLocaleString("en-US")} decisions in ${steps.toLocaleString("en-US")} steps are identical. Other programs took ${(100 * foreignShare).toFixed(0)} % of the processor time that was used.`,
  ].join("\n");
}

/** Of the targets, how many are kept, and which of the others are no further off than the engine's second run is from its first. */
function kept(all: readonly Measured[]) {
  const wanted = all.flatMap(({ times }) => times!.filter(({ figure }) => targets[figure] !== undefined));
  const missed = wanted.filter(({ figure, error }) => Math.abs(error!) > targets[figure]);
  return {
    targets: wanted.length,
    within: wanted.length - missed.length,
    withinNoise: missed.filter(({ error, noise }) => Math.abs(error!) <= Math.abs(noise!)).length,
  };
}

type FitReport = NonNullable<Measured["calibration"]>;

/** A column for each fit. */
function coefficients(fits: readonly (readonly [name: string, fit: FitReport])[]): string {
  const micro = (ps: number) => (ps / 1e6).toPrecision(3);
  const names = [...new Set(fits.flatMap(([, { coefficients }]) => coefficients.map(({ name }) => name)))];
  const of = (fit: FitReport, wanted: string) => fit.coefficients.find(({ name }) => name === wanted);
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
    row(["measured ÷ fitted − 1", "steps", "mean, ms", ...names, "in all"]),
    row(["---", ...Array(8).fill("---:")]),
    ...found.map((one) =>
      row([
        one.kind,
        String(one.steps),
        number(one.meanMs),
        ...names.map((name) => signed(one[name])),
        signed(one.total),
      ]),
    ),
    row(["alike ÷ their median", "", "", ...names.map((name) => signed(repeated![name])), ""]),
  ].join("\n");
}

const page = (all: readonly (readonly [name: string, measured: Measured])[]) => {
  const fits = all.map(([name, { calibration }]) => [name, calibration!] as const);
  const [, designed] = fits.at(-1)!;
  const { targets: wanted, within, withinNoise } = kept(all.map(([, measured]) => measured));
  const picture = existsSync(`${root}docs/calibration.svg`)
    ? "\n\n![Residuals of kvlab calibrate by itself](calibration.svg)"
    : "";
  return `# Calibration

\`kvlab calibrate\` measures what an engine's steps take and fits the simulator's cost model to it:

\`\`\`sh
kvlab calibrate --model random:160m --preset vllm --out cost.json
kvlab replay trace.jsonl --target sim --preset vllm --blocks 2000 --cost cost.json
\`\`\`

\`kvlab verify --calibrate\` does that in turn with the trace itself, a second each, and says how far off the simulator is.

This page was written by \`npx tsx scripts/calibration.ts write\`, from measurements of one machine and one day.

## What is measured

The experiment is a trace (\`traces/calibration.ts\`), which the engine serves as any other, with all of a step's time in it: planning,
gathering the batch, the model, committing. Every round has all groups once, in an order of its own, after a first round that
is left out:

- prompts from 7 tokens to one less than the longest of the trace (at most ${longestPrompt}) behind nothing, an eighth, a third and three quarters cached, one, two and
  four of them at once, the four of different lengths;
- answers of 1, 2, 4 and 8 requests behind short and long contexts, all alike and of different lengths, because attention pads short
  ones;
- a prompt that comes while 1, 2, 4 or 7 answers are under way: steps with both.

What requests share is the same prefix for each place in a group, so that contexts are different memory, as in serving.

## The model

A step takes the sum of what its parts cost, none of which is negative. The engine divides a step into calls of the model, each of
which reads all weights; attention pads the sequences of a call to the longest. The file of coefficients says how steps are divided,
and the simulator divides its own in the same way with the backend's own \`StepLoadExtension\`, so that calls and padding are parts like the others.
What a call gathers costs more for each token the more it is, as it comes from caches that are further away: those after the
first ${farContextTokens.least.toLocaleString("en-US")} are a part of their own, so that the cost still rises in a straight line beyond what was measured.

Least squares of relative errors (weights are 1 ÷ fitted²,
found again eight times), with residuals larger than three times the usual one bounded; then all coefficients are scaled so that all
steps together take what they took, but for pauses (more than twice what is fitted). Intervals
hold 95 % of 400 samples of a bootstrap with a seed, over 40 stretches of successive steps, because a slow phase of the machine
lasts for many steps. Single coefficients are less sure than their sum: \`step\` and \`calls\` are one each in nearly every step
of answers, and either may carry both.

${designed.about}; ${designed.steps.toLocaleString("en-US")} steps, as many for each of the workloads below but for a few, with its policy.

${coefficients(fits)}

Residuals of the fit for *${fits.at(-1)![0]}*:

${residuals(designed)}

The last row is what no model can explain: how far steps of the very same load are from their median.${picture}

- \`--from RUN\` fits to the steps of a saved run instead, of the engine or of the simulator, with its own mix of loads.
- \`kvlab calibrate TRACE --from LOG\` fits to a log of vLLM's requests (requests.jsonl, meta.json, config.json), which has no steps:
  a time between two tokens is that of the steps between them, and which these are, the simulator says, again and again with
  what was fitted.
- What no step had (copied blocks, swapped tokens in the designed steps) costs nothing: fit to a run that has it.
- Models with sliding windows are fitted by their whole contexts, of which the engine gathers less: use them with a run's own steps.

## Prediction error

\`\`\`sh
npx tsx scripts/calibration.ts ${all.map(([name]) => name).join(" ")} write
\`\`\`

Each workload is served twice, by two engines in one process that take turns with a third one, which serves the designed steps
(\`kvlab verify TRACE --calibrate ${rounds}\`): always the one that is least far with its work goes on, for a second or a little more. All three have the same weights in the same memory. *Noise*
is the second run ÷ the first − 1. *Simulated* is what the simulator makes of the trace with what was fitted to the designed steps
alone, and *error* its quotient with the mean of both runs − 1, in bold where it misses its target. *± 3 %* is between what the simulator's
figure is if all steps take 3 % less to 3 % more, in seven simulations: single steps are off by that much, and where it makes a large
difference, a figure hangs on which request came just before or just after a step began, as P99 of ${chatRequests} requests does. The workloads are ${chatRequests} requests of chat
sessions (\`scripts/calibration.ts\` has the options); arrival rate, lengths, policy, size of the cache and limit of the batch
differ, while the designed steps are measured with the policy of the workload.

**The simulator keeps ${within} of ${wanted} targets${withinNoise === 0 ? "" : `; ${withinNoise} of the others are no further off than the engine's second run is from its first`}.**

The same with what was fitted beside *${all[0][0]}* alone, for all of them, minutes apart. The last column is what the same designed
steps with answers took beside each, which the machine decides and no model; where requests wait for each other, every percent of
it is several of their times:

${withFirst(all)}

Engines take turns because the machine, two cores that are shared with others, has phases in which everything takes up to a fifth longer
for minutes. Measured one after the other (designed steps, then the workload twice, then designed steps again), the engine's own second
run was up to 16 % from its first in mean latency, and 6 of 24 targets were kept; in turns it could be seen that part of it was the
engine's own fault (docs/decisions.md, "Engine"). Latencies move more than steps do, because who waits
makes others wait. Throughput tests the model only where requests come faster than the engine can serve them (*flood*); elsewhere it
has time to spare.

${all.map(([name, measured]) => table(name, measured)).join("\n\n")}
`;
};

/** How far off all workloads are with what was fitted beside the first of them. */
function withFirst(all: readonly (readonly [name: string, measured: Measured])[]): string {
  const [, fitted] = all[0];
  const names = Object.keys(targets);
  const rows = all.map(([name, { times, calibration }]) => {
    const of = simulated(name, fitted);
    const errors = names.map((wanted) => {
      const { engine, again } = times!.find(({ figure }) => figure === wanted)!;
      const error = of(wanted) / ((engine! + again!) / 2) - 1;
      return Math.abs(error) > targets[wanted] ? `**${signed(error)}**` : signed(error);
    });
    const answers = calibration!.residuals.find(({ kind }) => kind === "answers")!;
    return row([name, ...errors, number(answers.meanMs)]);
  });
  const heads = [...names.map((figure) => figure.replace(/^\w+/, (word) => words[word])), "designed answers, ms: mean"];
  return [row(["", ...heads]), row(["---", ...heads.map(() => "---:")]), ...rows].join("\n");
}

/** Residuals as a picture, of a measurement of its own. */
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
const wanted = process.argv.slice(2);
const known = [...Object.keys(workloads), "plot", "write"];
if (wanted.length === 0 || !wanted.every((what) => known.includes(what))) {
  console.error(`expected one or several of ${known.join(", ")}`);
  process.exit(2);
}
for (const what of wanted) {
  if (what === "write") write();
  else if (what === "plot") plot();
  else await serve(what);
}
