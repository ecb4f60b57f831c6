import { type Slo, type SloMetric, sloMetrics } from "../../core/serving/metrics.ts";
import { duration } from "../output/numbers.ts";

export const metricNames: Readonly<Record<SloMetric, string>> = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "latency" };

/** `P99 TTFT ≤ 500 ms, P95 TPOT ≤ 50.0 ms`. */
export const objectiveText = (slo: Slo): string =>
  sloMetrics
    .filter((metric) => slo[metric] !== undefined)
    .map((metric) => `P${slo.percentiles?.[metric]} ${metricNames[metric]} ≤ ${duration(slo[metric]!)}`)
    .join(", ");
