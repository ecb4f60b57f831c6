import { format } from "d3-format";
import type { RunRow } from "../../api.ts";

export const percent: (value: number) => string = format(".2%");
/** At axes. */
export const roundPercent: (value: number) => string = format(".0%");
export const integer: (value: number) => string = format(",.0f");
const short = format(".3~s");

/** At most three digits and a prefix: 16.4k. */
export const approximate = (value: number): string =>
  Math.abs(value) < 1 ? String(Number(value.toPrecision(3))) : short(value).replace("G", "B");

/** Milliseconds, to about three digits. */
export function milliseconds(ms: number): string {
  if (ms >= 1000) return `${format(ms >= 10_000 ? ",.1f" : ".2f")(ms / 1000)} s`;
  return `${format(ms >= 100 ? ",.0f" : ms >= 10 ? ".1f" : ".2f")(ms)} ms`;
}

/** Milliseconds at an axis. */
export const tickMs = (ms: number): string => (ms >= 1000 ? `${approximate(ms / 1000)} s` : `${approximate(ms)} ms`);

export const perSecond = (value: number): string => `${format(value >= 100 ? ",.0f" : ",.2f")(value)}/s`;

const moment = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
export const when = (ms: number): string => moment.format(ms);

/** A difference with its sign, as a share of what it is compared with. */
export const change: (value: number) => string = format("+.1%");

/** The definitions of the hit ratio, in the report's names. */
export const hitRatios: Readonly<Record<string, string>> = {
  block: "blocks: cached prefix blocks ÷ prompt blocks",
  token: "tokens: cached tokens ÷ prompt tokens",
  requestMeanBlock: "mean of requests’ block ratios",
  requestMeanToken: "mean of requests’ token ratios",
  fullBlock: "full blocks: without the partial last block",
  anyResidentBlock: "resident blocks, also past a hole",
};

/** Latencies of a report, in its names. */
export const latencies: Readonly<Record<string, string>> = {
  ttftMs: "time to first token",
  tpotMs: "time per output token",
  e2eMs: "latency",
  queueMs: "time in the queue",
};

/** A preset by its name; otherwise index and eviction. */
export const policyOf = ({ preset, index, eviction }: Pick<RunRow, "preset" | "index" | "eviction">): string =>
  preset ? `${preset} · ${eviction}` : `${index} · ${eviction}`;
