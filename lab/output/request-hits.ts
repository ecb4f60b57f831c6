import type { Metric } from "./hit-ratios.ts";

/** The hit ratios that are sums over requests ÷ sums over requests. */
export type SummedMetric = Exclude<Metric, "anyResidentBlock">;

export const isSummed = (metric: Metric): metric is SummedMetric => metric !== "anyResidentBlock";

/** What the denominators of a request's hit ratios consist of. */
export interface RequestSize {
  readonly promptBlocks: number;
  readonly inputTokens: number;
  /** Prompt blocks without a partial last one. */
  readonly fullBlocks: number;
}

/** A request's part of the denominator of a hit ratio. */
export function lookupsOf(metric: SummedMetric, { promptBlocks, inputTokens, fullBlocks }: RequestSize): number {
  switch (metric) {
    case "block":
      return promptBlocks;
    case "token":
      return inputTokens;
    case "fullBlock":
      return fullBlocks;
    default:
      return 1;
  }
}

/** A request's part of the numerator of a hit ratio. */
export function hitsOf(metric: SummedMetric, size: RequestSize, hitBlocks: number, hitTokens: number): number {
  switch (metric) {
    case "block":
      return hitBlocks;
    case "token":
      return hitTokens;
    case "fullBlock":
      return Math.min(hitBlocks, size.fullBlocks);
    case "requestMeanBlock":
      return size.promptBlocks > 0 ? hitBlocks / size.promptBlocks : 0;
    case "requestMeanToken":
      return hitTokens / size.inputTokens;
  }
}
