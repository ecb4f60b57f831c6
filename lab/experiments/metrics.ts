interface MetricColumn {
  readonly label: string;
  readonly digits: number;
  /** Shown as a percentage. */
  readonly share?: true;
}

/** The columns of all tables, so that a column means the same in each of them. */
export const metrics = {
  promptS: { label: "prefill s", digits: 3 },
  makespanS: { label: "total s", digits: 2 },
  requestsPerS: { label: "req/s", digits: 2 },
  totalTokensPerS: { label: "tok/s", digits: 0 },
  outputTokensPerS: { label: "output tok/s", digits: 0 },
  hitTokens: { label: "hit tokens", digits: 0 },
  hitRatioBlock: { label: "block hits", digits: 1, share: true },
  hitRatioToken: { label: "hit ratio", digits: 1, share: true },
  duplicated: { label: "duplicated", digits: 1, share: true },
  imbalance: { label: "imbalance", digits: 2 },
  lostTokensMean: { label: "lost mean", digits: 1 },
  lostTokensMax: { label: "lost max", digits: 0 },
  wasted: { label: "wasted", digits: 1, share: true },
  batchMean: { label: "batch", digits: 1 },
  steps: { label: "steps", digits: 0 },
  preemptions: { label: "preempted", digits: 0 },
  computedAgain: { label: "recomputed", digits: 1, share: true },
  latencyMsP50: { label: "latency p50 ms", digits: 0 },
  jobS: { label: "job s", digits: 1 },
  delayS: { label: "delay s", digits: 1 },
  ttftMsP50: { label: "TTFT p50 ms", digits: 0 },
  ttftMsP90: { label: "p90 ms", digits: 0 },
  ttftMsP95: { label: "p95 ms", digits: 0 },
  ttftMsP99: { label: "p99 ms", digits: 0 },
  tpotMsMean: { label: "TPOT ms", digits: 1 },
  tpotMsP90: { label: "p90 ms", digits: 1 },
  sloTight: { label: "tight", digits: 1, share: true },
  sloLoose: { label: "loose", digits: 1, share: true },
} as const satisfies Record<string, MetricColumn>;

export type MetricName = keyof typeof metrics;

/** Metrics by name; each name ends with its unit. */
export type Metrics = Partial<Record<MetricName, number>>;
