interface Figure {
  readonly label: string;
  readonly digits: number;
  /** Shown as a percentage. */
  readonly share?: true;
}

/** Every column that a table may have, so that it means the same in all of them. */
export const metrics = {
  promptS: { label: "prompts s", digits: 3 },
  makespanS: { label: "all s", digits: 2 },
  requestsPerS: { label: "req/s", digits: 2 },
  totalTokensPerS: { label: "tok/s", digits: 0 },
  outputTokensPerS: { label: "output tok/s", digits: 0 },
  hitRatioToken: { label: "hits", digits: 1, share: true },
  duplicated: { label: "duplicated", digits: 1, share: true },
  imbalance: { label: "imbalance", digits: 2 },
  lostTokensMean: { label: "lost", digits: 1 },
  lostTokensMax: { label: "lost most", digits: 0 },
  wasted: { label: "wasted", digits: 1, share: true },
  batchMean: { label: "batch", digits: 1 },
  steps: { label: "steps", digits: 0 },
  preemptions: { label: "sent back", digits: 0 },
  computedAgain: { label: "again", digits: 1, share: true },
  ttftMsP50: { label: "TTFT p50 ms", digits: 0 },
  ttftMsP99: { label: "p99 ms", digits: 0 },
  tpotMsMean: { label: "TPOT ms", digits: 1 },
} as const satisfies Record<string, Figure>;

export type MetricName = keyof typeof metrics;

/** Figures by their names, the unit last. */
export type Metrics = Partial<Record<MetricName, number>>;
