import { format } from "d3-format";
import type { RunRow } from "../../api.ts";

export const percent: (value: number) => string = format(".2%");
/** For axis ticks. */
export const roundPercent: (value: number) => string = format(".0%");
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

export const perSecond = (value: number): string => `${format(value >= 100 ? ",.0f" : ",.2f")(value)}/s`;

const dateTime = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
export const dateText = (ms: number): string => dateTime.format(ms);

/** A relative difference with its sign. */
export const change: (value: number) => string = format("+.1%");

/** The definitions of the hit ratio, by the names in the report. */
export const hitRatios: Readonly<Record<string, string>> = {
  block: "blocks: cached prefix blocks ÷ prompt blocks",
  token: "tokens: cached tokens ÷ prompt tokens",
  requestMeanBlock: "mean of requests’ block ratios",
  requestMeanToken: "mean of requests’ token ratios",
  fullBlock: "full blocks: the partial last block is not counted",
  anyResidentBlock: "resident blocks, including those past a hole",
};

/** The latencies, by the names in the report. */
export const latencies: Readonly<Record<string, string>> = {
  ttftMs: "time to first token",
  tpotMs: "time per output token",
  e2eMs: "end-to-end latency",
  queueMs: "queueing time",
};

/** The preset, or else the index, and the eviction policy. */
export const policyOf = ({ preset, index, eviction }: Pick<RunRow, "preset" | "index" | "eviction">): string =>
  preset ? `${preset} · ${eviction}` : `${index} · ${eviction}`;

export function targetText(target: string): string {
  if (target === "cache") return "cache replay without a clock";
  return target === "sim" ? "simulation" : `real engine (${target})`;
}
