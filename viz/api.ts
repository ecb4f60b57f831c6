/** What the dashboard's server answers; the page reads nothing else. Ratios are 0 to 1, times ns or ms as named. */

/** GET /api/runs → the newest first. */
export interface RunList {
  readonly schema: "runs/1";
  readonly runs: readonly (RunRow | BrokenRun)[];
}

/** One saved run, as much of it as a list needs. */
export interface RunRow {
  /** Name of its folder, which addresses it. */
  readonly id: string;
  readonly savedAtMs: number;
  readonly target: "cache" | "sim" | "cpu";
  readonly trace: string;
  readonly requests: number;
  readonly preset: string | null;
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  /** null: unlimited. */
  readonly blocks: number | null;
  readonly blockTokens: number;
  /** Cache size in tokens; null: unlimited. */
  readonly capacityTokens: number | null;
  /** By each definition of the report. */
  readonly hitRatio: Readonly<Record<string, number>>;
  /** Only of runs in time. */
  readonly requestsPerS?: number;
  readonly ttftMsP50?: number;
  readonly ttftMsP99?: number;
  readonly latencyMsP50?: number;
  /** It ended before its end. */
  readonly interrupted?: true;
}

/** A folder that is no whole run: shown, and in nobody's way. */
export interface BrokenRun {
  readonly id: string;
  readonly problem: string;
}

/** GET /api/runs/:id → what the list says, the report (schema run/1) as it was saved, and which files there are. */
export interface RunDetail {
  readonly row: RunRow;
  readonly report: Readonly<Record<string, unknown>>;
  readonly command: string;
  readonly files: readonly string[];
}

/** GET /api/runs/:id/series?fromNs=&toNs=&bins= → at most `bins` intervals (default 600); means over each. */
export interface SeriesData {
  /** What a count is of: a mean of 5 with intervals of 1e9 ns is 5 a second, however many intervals became one. */
  readonly intervalNs: number;
  readonly startNs: readonly number[];
  readonly endNs: readonly number[];
  /** By the names of series.parquet's levels and rates, in the file's units. */
  readonly columns: Readonly<Record<string, readonly number[]>>;
}

/** GET /api/runs/:id/requests?points= → at most so many requests (default 2000), evenly drawn; and exact quantiles. */
export interface RequestsData {
  readonly total: number;
  /** Columns of requests.parquet that are numbers; null where absent. */
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>;
  /** Of all requests, 101 of each latency: quantile 0, 0.01, … 1, ms. */
  readonly quantiles: Readonly<Record<string, readonly number[]>>;
}

/** GET /api/pairs?a=&b=&metric=&points= → the same requests in two runs, those that differ most first. */
export interface PairData {
  readonly metric: string;
  readonly total: number;
  readonly request: readonly number[];
  readonly a: readonly number[];
  readonly b: readonly number[];
}

/** GET /api/choices → what a run can be started with. */
export interface Choices {
  readonly traces: readonly string[];
  readonly presets: readonly string[];
  readonly indexes: readonly string[];
  readonly evictions: readonly string[];
  readonly allocators: readonly string[];
  readonly schedulers: readonly string[];
}

/**
 * POST /api/jobs → Job: a replay to start; lists make a comparison (a run each; of target cache with its bounds).
 * GET /api/jobs → Job[]. DELETE /api/jobs/:id → Job: it ends soon, and is cancelled then.
 */
export interface JobRequest {
  readonly trace: string;
  readonly target: "cache" | "sim" | "cpu";
  readonly preset?: string;
  /** None: the preset's or LRU; of a comparison without a preset, every one that can differ. */
  readonly evictions?: readonly string[];
  readonly index?: string;
  readonly scheduler?: string;
  /** Numbers of blocks, or shares such as "10%". */
  readonly blocks?: readonly string[];
  readonly limit?: number;
}

export interface Job {
  readonly id: number;
  readonly command: string;
  /** At most two run at once; the others wait. */
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  /** 0 to 1; null: not known. */
  readonly progress: number | null;
  /** The program's last line. */
  readonly said: string;
  readonly runs: readonly string[];
}

/** GET /api/events: server-sent events; `runs` (the list has changed), `jobs` (data: Job[]). */
export type ServerEvent = "runs" | "jobs";
