import { format } from "d3-format";
import type { RunRow, Setting } from "../../api.ts";

export const percent: (value: number) => string = format(".2%");
/** With as many decimals as the value has, at most three: for axis ticks, which do not repeat. */
export const roundPercent: (value: number) => string = format(".3~%");
export const integer: (value: number) => string = format(",.0f");
const short = format(".3~s");

/** Three significant digits and an SI prefix: 16.4k. */
export const approximate = (value: number): string =>
  Math.abs(value) < 1 ? String(Number(value.toPrecision(3))) : short(value).replace("G", "B");

/** A duration with about three significant digits. */
export function milliseconds(ms: number): string {
  if (ms >= 1000) return `${format(ms >= 10_000 ? ",.1f" : ".2f")(ms / 1000)} s`;
  return `${format(ms >= 100 ? ",.0f" : ms >= 10 ? ".1f" : ".2f")(ms)} ms`;
}

/** A duration, for axis ticks. */
export const tickMs = (ms: number): string => (ms >= 1000 ? `${approximate(ms / 1000)} s` : `${approximate(ms)} ms`);

const rate = (value: number): string => format(value >= 100 ? ",.0f" : ",.2f")(value);
/** A rate of requests. */
export const perSecond = (value: number): string => `${rate(value)} req/s`;

const dateTime = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
export const dateText = (ms: number): string => dateTime.format(ms);

/** A relative difference with its sign: "+12.3%"; from ten times the base on, as a factor: "× 223". */
export const change = (value: number): string => (value >= 9 ? `× ${approximate(value + 1)}` : format("+.1%")(value));

/** A difference of two ratios. */
export const points = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(2)} points`;

/** The definitions of the hit ratio, by the names in the report. */
export const hitRatios: Readonly<Record<string, string>> = {
  block: "blocks: cached prefix blocks ÷ prompt blocks",
  token: "tokens: cached tokens ÷ prompt tokens",
  requestMeanBlock: "mean of requests’ block ratios",
  requestMeanToken: "mean of requests’ token ratios",
  fullBlock: "full blocks: the partial last block is not counted",
  anyResidentBlock: "resident blocks, including those past a hole",
};

/** What the states of a block mean. */
export const blockStatesNote =
  "Referenced: in the block table of a running request. Idle: cached and unreferenced. Private: of one running request, not cached. Free: without content.";

/** The latencies, by the names in the report. */
export const latencies: Readonly<Record<string, string>> = {
  ttftMs: "time to first token",
  tpotMs: "time per output token",
  e2eMs: "end-to-end latency",
  queueMs: "queueing time",
};

/** A setting as a text that makes sense alone: "free-order reverse", "4 req/s", "swap space 4 GiB". */
export function settingText(name: string, value: Setting): string {
  const known = settingTexts[name];
  if (known) return known(value);
  const [label, text] = settingParts(name, value);
  return `${label} ${text}`;
}

const settingTexts: Readonly<Record<string, (value: Setting) => string>> = {
  model: String,
  gpu: String,
  requestsPerS: (value) => `${value} req/s`,
  replicas: (value) => (value === 1 ? "1 replica" : `${value} replicas`),
  tensorParallel: (value) => `TP ${value}`,
  dataParallel: (value) => `DP ${value}`,
  expertParallel: (value) => `EP ${value}`,
  pipelineParallel: (value) => `PP ${value}`,
  slo: (value) => `SLO ${value}`,
};

/** Units that end the names of settings, and how a value is shown in them. */
const units: readonly (readonly [suffix: string, text: (value: number) => string])[] = [
  ["Bytes", (value) => (value >= 2 ** 30 ? `${approximate(value / 2 ** 30)} GiB` : `${integer(value)} B`)],
  ["PerS", (value) => `${rate(value)}/s`],
  ["Ms", (value) => milliseconds(value)],
];

/** The name of a setting in words, and its value with the unit that ends the name: swapSpaceBytes → swap space, 4 GiB. */
export function settingParts(name: string, value: Setting): readonly [label: string, text: string] {
  const unit = typeof value === "number" ? units.find(([suffix]) => name.endsWith(suffix)) : undefined;
  const label = (unit ? name.slice(0, -unit[0].length) : name).replace(/([a-z\d])([A-Z])/g, "$1 $2");
  const words = label.replace(/[A-Z](?=[a-z])/g, (letter) => letter.toLowerCase());
  return [words, unit ? unit[1](value as number) : String(value)];
}

/** The preset, or else the index, and the eviction policy. */
export const policyOf = ({ preset, index, eviction }: Pick<RunRow, "preset" | "index" | "eviction">): string =>
  preset ? `${preset} · ${eviction}` : `${index} · ${eviction}`;

export function targetText(target: string): string {
  if (target === "cache") return "cache replay without a clock";
  return target === "sim" ? "simulation" : `real engine (${target})`;
}
