/**
 * Responses of the dashboard's server; the page has no other source. Ratios are 0 to 1, times ns or ms as named. An error is a
 * status from 400 on and `{ "error": … }`, one line.
 */

/** GET /api/runs → the newest first. */
export interface RunList {
  readonly schema: "runs/1";
  readonly runs: readonly (ListedRun | BrokenRun)[];
  /** The folder of the runs, and whether it exists. */
  readonly folder: { readonly path: string; readonly exists: boolean };
  /** The settings that `ListedRun.settings` has numbers of. */
  readonly settings: readonly (readonly [name: string, value: Setting])[];
}

/** A run of the list; its settings are indices of `RunList.settings`. */
export interface ListedRun extends Omit<RunRow, "settings"> {
  readonly settings: readonly number[];
}

export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export type Setting = string | number | boolean;

/** The summary of a saved run in the list. */
export interface RunRow {
  /** Name of its folder, which is its id. */
  readonly id: string;
  readonly savedAtMs: number;
  /** `cache`, `sim`, or an engine target. */
  readonly target: string;
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
  /** By definition: the share of the gap between lru and the proven bound that is closed; null if there is none. Only in comparisons. */
  readonly gapClosed?: Readonly<Record<string, number | null>>;
  /** Differences of the hit ratio `metric` with 95 % intervals; only in comparisons of a trace with sessions. */
  readonly uncertainty?: {
    readonly metric: string;
    readonly gainOverLru: Interval;
    readonly behindBest: Interval;
  };
  readonly hitTokens: number;
  readonly lookupTokens: number;
  /** Size of the keys and values of a token; only for runs of a model. */
  readonly kvBytesPerToken?: number;
  /** Missed tokens by reason, by the names of the report; reasons without tokens are left out. */
  readonly missTokens?: Readonly<Record<string, number>>;
  /** Refused requests, if there are any, and in runs with a clock their number by reason. */
  readonly refused?: number;
  readonly refusals?: Readonly<Record<string, number>>;
  /** Only for runs with a clock, as all below. */
  readonly requestsPerS?: number;
  readonly outputTokensPerS?: number;
  readonly offeredRequestsPerS?: number;
  readonly ttftMsP50?: number;
  readonly ttftMsP99?: number;
  readonly tpotMsP50?: number;
  readonly tpotMsP99?: number;
  readonly latencyMsP50?: number;
  readonly queueMsP50?: number;
  readonly queueMsP99?: number;
  /** Requests per second that meet the SLO, and their share of all requests; only with an SLO. */
  readonly goodputRequestsPerS?: number;
  readonly sloAttained?: number;
  /** Mean over replicas of the share of time with a batch. */
  readonly utilisation?: number;
  /** Requests of the busiest replica ÷ mean; only with several replicas. */
  readonly imbalance?: number;
  /** What limits the throughput: `load`, if all requests are served as they arrive. */
  readonly limitedBy?: string;
  /** Settings of the report by name: rules, seed, model, GPU, rate, router and so on. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** The run was interrupted. */
  readonly interrupted?: true;
  readonly notes?: RunNotes;
}

/** What users have noted about a run; another dashboard over the folder shows the same. */
export interface RunNotes {
  readonly name?: string;
  readonly tags?: readonly string[];
  readonly text?: string;
  /** Not in the list, in Compare and in Answer, unless it is asked for. */
  readonly hidden?: true;
  /** The run that others of its workload are compared with by default. */
  readonly baseline?: true;
}

/**
 * PATCH /api/runs/:id → RunNotes: changes the given fields; "", [] and false remove one. `baseline` is removed from other runs of
 * the same trace, number of requests and target. DELETE /api/runs/:id → 204: deletes the run's folder; 409 if a process is
 * writing it, or it has files that are not those of a run.
 */
export interface RunNotesChange {
  readonly name?: string;
  readonly tags?: readonly string[];
  readonly text?: string;
  readonly hidden?: boolean;
  readonly baseline?: boolean;
}

/** A folder without a complete run. */
export interface BrokenRun {
  readonly id: string;
  readonly problem: string;
}

/** GET /api/curves → the newest first. */
export interface CurvesList {
  readonly schema: "curves/1";
  readonly curves: readonly CurvesRow[];
}

/** Curves that `kvlab curve --out` saved. */
export interface CurvesRow {
  /** Name of the folder. */
  readonly id: string;
  readonly savedAtMs: number;
  readonly trace: string;
  readonly requests: number;
}

/** GET /api/curves/:id → the points of each curve, in ascending order of size. */
export interface CurvesDetail extends CurvesRow {
  readonly blockTokens: number;
  readonly distinctBlocks: number;
  /** The definition of the hit ratio that `low` and `high` belong to. */
  readonly metric: string;
  /** The points are estimates, between `low` and `high`. */
  readonly isSampled: boolean;
  readonly curves: readonly {
    readonly preset?: string | undefined;
    readonly index: string;
    /** `bound` for the offline bound. */
    readonly eviction: string;
    readonly rules: readonly string[];
    readonly points: readonly {
      readonly blocks: number;
      /** By definition; a bound has only some. */
      readonly hitRatio: Readonly<Record<string, number>>;
      readonly low: number;
      readonly high: number;
    }[];
  }[];
  /** Curves that are drawn as one, by their numbers; `rules` are those of all of them. */
  readonly bands: readonly {
    readonly curves: readonly number[];
    readonly over: readonly string[];
    readonly rules: readonly string[];
  }[];
}

/** GET /api/sizes → the newest first. */
export interface SizesList {
  readonly schema: "sizes/1";
  readonly sizes: readonly SizesRow[];
}

/** An answer that `kvlab size --out` saved. */
export interface SizesRow {
  /** Name of the folder. */
  readonly id: string;
  readonly savedAtMs: number;
  readonly trace: string;
  readonly requests: number;
  readonly model: string;
}

/** GET /api/sizes/:id → all simulated clusters, the cheapest first. */
export interface SizeDetail extends SizesRow {
  readonly currency: string;
  /** The prices are the built-in ones. */
  readonly arePricesAssumed: boolean;
  readonly clusters: readonly {
    readonly gpu: string;
    readonly tensorParallel: number;
    readonly replicas: number;
    readonly gpus: number;
    readonly preset: string;
    readonly eviction: string;
    readonly router: string | null;
    readonly costPerHour: number;
    readonly met: boolean;
    /** `valueMs`: null if it is infinite. */
    readonly objectives: readonly {
      readonly metric: "ttftMs" | "tpotMs" | "e2eMs";
      readonly percentile: number;
      readonly limitMs: number;
      readonly valueMs: number | null;
    }[];
    readonly goodputRequestsPerS: number;
    readonly hitRatio: number;
    readonly utilisation: number;
    readonly onFront: boolean;
    readonly chosen: boolean;
  }[];
}

/** GET /api/runs/:id → its row in the list, the saved report (schema run/1) and the names of its files. */
export interface RunDetail {
  readonly row: RunRow;
  readonly report: Readonly<Record<string, unknown>>;
  readonly command: string;
  readonly files: readonly string[];
}

/**
 * GET /api/runs/:id/series?fromNs=&toNs=&bins= → at most `bins` intervals (default 600); means over each. `latency` is present
 * where the run has times of requests.
 */
export interface SeriesData {
  /** The interval of counts, before intervals are merged: a mean of 5 with intervals of 1e9 ns is 5 a second. */
  readonly intervalNs: number;
  readonly startNs: readonly number[];
  readonly endNs: readonly number[];
  /** By the column names of series.parquet, in its units. */
  readonly columns: Readonly<Record<string, readonly number[]>>;
  readonly latency?: LatencySeries;
}

/**
 * Exact quantiles of the latencies of each interval, which is at least as long as one of the series: TTFT of the requests whose
 * first token is in it, TPOT of those that end in it, queueing time of those that are admitted in it. Without the warm-up and
 * refused requests. null: no such request.
 */
export interface LatencySeries {
  readonly startNs: readonly number[];
  readonly endNs: readonly number[];
  /** By the names of the report: `ttftMs`, `tpotMs`, `queueMs`. */
  readonly columns: Readonly<
    Record<string, { readonly p50: readonly (number | null)[]; readonly p99: readonly (number | null)[] }>
  >;
}

/** GET /api/runs/:id/replicas?bins= → each replica, and at most `bins` intervals (default 60) over the whole run. */
export interface ReplicasData {
  readonly startNs: readonly number[];
  readonly endNs: readonly number[];
  readonly replicas: readonly ReplicaRow[];
}

export interface ReplicaRow {
  readonly replica: number;
  /** Without the warm-up, as all below. */
  readonly requests: number;
  /** Of the requests that were admitted. */
  readonly hitRatio: number | null;
  readonly ttftMsP50: number | null;
  readonly ttftMsP99: number | null;
  /** In each interval: requests that end; hit tokens ÷ prompt tokens of those that are admitted; share of time with a step. */
  readonly finished: readonly number[];
  readonly hitRatios: readonly (number | null)[];
  /** Absent if steps.parquet is absent or too large. */
  readonly utilisation?: readonly number[];
}

/** GET /api/runs/:id/sessions?most= → the sessions with the most requests, at most so many (default 50). */
export interface SessionsData {
  /** Number of sessions. */
  readonly total: number;
  readonly sessions: readonly SessionRow[];
}

export interface SessionRow {
  readonly session: number;
  readonly requests: number;
  /** Number and arrival of its first request. */
  readonly firstRequest: number;
  readonly firstNs: number;
  readonly inputTokens: number;
  readonly hitTokens: number;
}

/** GET /api/runs/:id/history?request= → one request. 404 if there is none of this number. */
export interface RequestHistory {
  readonly request: number;
  /** By the column names of requests.parquet and of the latencies; null where absent. */
  readonly columns: Readonly<Record<string, number | null>>;
  /** The other requests of its session in their order, and itself; at most 200 around it. */
  readonly session: readonly SessionTurn[];
  /** From the event log; null: it was not saved, or cannot be shown for the reason `noLog`. */
  readonly log: RequestLog | null;
  readonly noLog?: string;
}

export interface SessionTurn {
  readonly request: number;
  readonly arrivalNs: number;
  readonly inputTokens: number;
  readonly hitTokens: number;
  readonly refused: boolean;
  readonly ttftMs: number | null;
}

export interface RequestLog {
  /** Missed prompt tokens of the first admission by reason, by the names of the report. */
  readonly missTokens: Readonly<Record<string, number>>;
  /** Admissions, preemptions and the end, in order. */
  readonly events: readonly { readonly event: number; readonly timeNs: number; readonly kind: string }[];
}

/** GET /api/runs/:id/requests?points= → a sample of at most so many requests (default 2000) at even distances, and exact quantiles. */
export interface RequestsData {
  readonly total: number;
  /** Columns of requests.parquet that are numbers; null where absent. */
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>;
  /** For each latency, the quantiles 0, 0.01, … 1 over all requests, ms. */
  readonly quantiles: Readonly<Record<string, readonly number[]>>;
}

/** GET /api/runs/:id/log → a summary of the run's event log; 404 if the run was saved without one (--events). */
export interface LogData {
  readonly events: number;
  readonly firstNs: number;
  readonly lastNs: number;
  /** The highest block number in it + 1. */
  readonly blocks: number;
  /** Number of events of each kind, by the names of core/log/events.ts. */
  readonly kinds: Readonly<Record<string, number>>;
  /**
   * At the end of each of at most 400 equal parts of the log: time and numbers of idle, referenced (`held`) and private blocks;
   * and the number of evictions in the part. Drawn behind the scrubber.
   */
  readonly overview: {
    readonly event: readonly number[];
    readonly timeNs: readonly number[];
    readonly private: readonly number[];
    readonly held: readonly number[];
    readonly idle: readonly number[];
    readonly evicted: readonly number[];
  };
}

/**
 * GET /api/runs/:id/moment?event=&nodes= → the state of the cache after the first `event` events (at the log's end, if it has
 * fewer), with a tree of at most `nodes` (default 1500) nodes. Instead of `event`: `timeNs=` (all events up to that time), or
 * with `from=` an event and `next=` or `previous=` a kind: before the first such event from there on (then it is `next[0]`), or
 * before the last earlier one; if there is none, the end of the log, or its beginning. Ages are counted in events, not ns,
 * where the log has no clock (its firstNs and lastNs are equal).
 */
export interface MomentData {
  readonly event: number;
  /** Time of the last of these events. */
  readonly timeNs: number;
  readonly steps: number;
  readonly counts: { readonly free: number; readonly private: number; readonly held: number; readonly idle: number };
  /** Requests in the order of their admission. */
  readonly running: readonly number[];
  readonly blocks: BlockMap;
  readonly tree: TreeData;
  /** The events before, the latest last, and the events after, the next first: at most a dozen of each. */
  readonly before: readonly EventText[];
  readonly next: readonly EventText[];
}

/** One event as a sentence. */
export interface EventText {
  readonly event: number;
  readonly timeNs: number;
  /** By the names of core/log/events.ts. */
  readonly kind: string;
  /** −1: none. */
  readonly request: number;
  readonly block: number;
  readonly text: string;
  /** Only for the next event: its reason, as far as the log shows it ("has been idle for 12.3 s, the longest of 117 evictable"). */
  readonly why?: string;
}

/** A cell for each block, in the order of block numbers; with more than 65,536 blocks, neighbours share a cell. */
export interface BlockMap {
  readonly blocksPerCell: number;
  readonly cells: number;
  /** Bytes, as base64: 0 free, 1 private, 2 referenced, 3 idle. */
  readonly life: string;
  /** Bytes, as base64: age of the last use of an idle block, linear from 0 (now) to 255 (`oldestNs` ago); otherwise 0. */
  readonly age: string;
  /** The largest age. */
  readonly oldestNs: number;
  /** Bytes, as base64: hits since it was cached, 255 and more are 255. */
  readonly hits: string;
  /** 32-bit little-endian integers, as base64: the request that references the block or, if it is idle, published it; −1 if free, below −1 an operator's pin. */
  readonly owner: string;
}

/**
 * The cached prefixes as a tree of runs of blocks, parents before their children, columns of equal length. A node
 * ends where prompts diverge; small ones beyond `nodes` are merged into one node "others" of their parent.
 */
export interface TreeData {
  readonly blockTokens: number;
  /** Index of the parent; −1: a root, which begins a prompt. */
  readonly parent: readonly number[];
  /** Tokens before the node, and in it. */
  readonly fromToken: readonly number[];
  readonly tokens: readonly number[];
  /** Its first block. */
  readonly block: readonly number[];
  /** Number of referenced blocks. */
  readonly heldBlocks: readonly number[];
  /** Hits of its blocks. */
  readonly hits: readonly number[];
  /** Time since the last use of any of its blocks. */
  readonly ageNs: readonly number[];
  /** The request that published its first block; −1: others, see `merged`. */
  readonly owner: readonly number[];
  /** Number of nodes that are merged into this one; 1: none. */
  readonly merged: readonly number[];
  /** Index of the node with the block of the next event; −1: none. */
  readonly next: number;
}

/** GET /api/difference?a=&b= → the first difference between the event logs of two runs of one trace; 409 if their traces differ. */
export interface DifferenceData {
  /** Number of leading events that are equal in both; a log's length if it ended there. */
  readonly event: number;
  readonly identical: boolean;
  /** Whether times are compared: only for two simulations, because other runs have no clock or a real one. */
  readonly timesCompared: boolean;
  readonly a?: EventText;
  readonly b?: EventText;
}

/** GET /api/runs/:id/prefixes?most= → prefixes in the event log: at most so many (default 20) of each kind. */
export interface PrefixData {
  /** Those that saved the most tokens. */
  readonly valuable: readonly PrefixRow[];
  /** Those with the most token-seconds after their last hit. */
  readonly wasted: readonly PrefixRow[];
  /** Over all cached blocks: token-seconds in the cache, and their part after the last hit. */
  readonly tokenSeconds: number;
  readonly wastedTokenSeconds: number;
}

/** A run of cached blocks without a branch, over the whole log. */
export interface PrefixRow {
  /** The request that first published it, and its position in the prompt. */
  readonly request: number;
  readonly fromToken: number;
  readonly tokens: number;
  /**
   * Number of requests that hit it, and tokens that were not computed. Over all prefixes, the sum of the report's hitTokens and
   * rehitTokens and those of the warm-up.
   */
  readonly hits: number;
  readonly savedTokens: number;
  /** Tokens × time in the cache, and its part after the last hit. Without a clock, events are counted instead of seconds. */
  readonly tokenSeconds: number;
  readonly wastedTokenSeconds: number;
  readonly timesCached: number;
  readonly timesEvicted: number;
  /** Its first `publish` event. */
  readonly event: number;
}

/** GET /api/pairs?a=&b=&metric=&points= → the same requests in two runs, the largest differences first. */
export interface PairData {
  readonly metric: string;
  readonly total: number;
  readonly request: readonly number[];
  readonly a: readonly number[];
  readonly b: readonly number[];
}

/** GET /api/choices → the values with which a run can be started. */
export interface Choices {
  readonly traces: readonly string[];
  readonly presets: readonly string[];
  readonly indexes: readonly string[];
  readonly evictions: readonly string[];
  readonly allocators: readonly string[];
  readonly schedulers: readonly string[];
  readonly routers: readonly string[];
  /** Models and hardware that can be simulated. */
  readonly models: readonly string[];
  readonly hardware: readonly string[];
  /** The engine's targets, one for each backend, and the models that they can run. */
  readonly engineTargets: readonly string[];
  readonly engineModels: readonly string[];
  /** Defaults. */
  readonly defaults: Readonly<Record<"model" | "gpu" | "engineModel" | "router", string>>;
}

/**
 * POST /api/jobs → Job: a replay to start; a list of several makes a comparison (a run for each combination; of target cache
 * with its bounds). POST /api/command → JobCommand: the same, without starting anything.
 * GET /api/jobs → Job[]. DELETE /api/jobs/:id → Job: requests its cancellation.
 */
export interface JobRequest {
  readonly trace: string;
  /** `cache`, `sim`, or one of `engineTargets`. */
  readonly target: string;
  readonly presets?: readonly string[];
  readonly indexes?: readonly string[];
  /** Absent: the preset's or LRU; for a comparison without a preset, every policy that can differ. */
  readonly evictions?: readonly string[];
  readonly allocators?: readonly string[];
  readonly schedulers?: readonly string[];
  /** For target sim one of `models`, for an engine target one of `engineModels`. */
  readonly model?: string;
  /** Only for target sim, as the next two: one of `hardware`. */
  readonly gpu?: string;
  readonly replicas?: readonly number[];
  /** Only with several replicas. */
  readonly routers?: readonly string[];
  /** Requests per second, for target sim and engine targets. */
  readonly rates?: readonly number[];
  /** Numbers of blocks, or shares such as "10%". */
  readonly blocks?: readonly string[];
  readonly limit?: number;
  readonly warmup?: number;
  readonly seed?: number;
  /** Whether the event log is saved. */
  readonly events?: boolean;
}

/** The command line that a request stands for. */
export interface JobCommand {
  readonly command: string;
}

export interface Job {
  readonly id: number;
  readonly command: string;
  /** At most two run at once; the others wait. */
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  /** 0 to 1; null: not known. */
  readonly progress: number | null;
  /** The last line that the program printed. */
  readonly lastOutput: string;
  /** Its process id while it runs; the `LiveRow` of a replay has the same. */
  readonly pid: number | null;
  readonly runs: readonly string[];
}

/** GET /api/live → running programs that report their progress (`kvlab replay --live`), the newest first; at most 50. */
export interface LiveList {
  readonly schema: "live/1";
  readonly live: readonly (LiveRow | BrokenRun)[];
}

/** GET /api/live/:id → a running program and its state; 404 when it has ended. DELETE removes the files of a killed one. */
export interface LiveRow {
  readonly id: string;
  /** Its process id. */
  readonly pid: number;
  /** `killed`: the process ended without removing its files. */
  readonly state: "running" | "saving" | "killed";
  readonly startedAtMs: number;
  readonly command: string;
  /** The run that it will be saved as, with "-interrupted" appended if a signal ends it; null if it is not saved or the name is unknown. */
  readonly run: string | null;
  readonly target: string;
  readonly trace: string;
  /** null: a server, whose requests are not known beforehand. */
  readonly requests: number | null;
  readonly preset: string | null;
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  readonly blocks: number | null;
  readonly blockTokens: number;
  readonly capacityTokens: number | null;
  /** null: no request has arrived yet. */
  readonly now: LiveMetrics | null;
}

/**
 * Metrics so far. GET /api/live/:id/series → SeriesData, of whole intervals; 404 if it has no clock.
 * GET /api/live/:id/log and /api/live/:id/moment: as for a saved run, over the reported events.
 */
export interface LiveMetrics {
  readonly requestsDone: number;
  /** Time of the run; null without a clock. */
  readonly timeNs: number | null;
  readonly running: number;
  readonly waiting: number;
  readonly blocks: { readonly free: number; readonly private: number; readonly held: number; readonly idle: number };
  readonly lookupTokens: number;
  readonly hitTokens: number;
  readonly evictedBlocks: number;
  readonly preemptions: number;
  /** By each definition of the report. */
  readonly hitRatio: Readonly<Record<string, number>>;
  /** Since the warm-up; null without a clock. */
  readonly throughput: { readonly requestsPerS: number; readonly outputTokensPerS: number } | null;
  /** Share of the requests that have ended and meet the SLO, and their rate since the warm-up; only with an SLO. */
  readonly slo?: { readonly attained: number; readonly goodputRequestsPerS: number } | undefined;
  /** Number of refusals by reason. */
  readonly refusals?: Readonly<Record<string, number>> | undefined;
  /** Only with a clock. */
  readonly replicas?:
    | readonly { readonly requests: number; readonly hitRatio: number | null; readonly utilisation: number }[]
    | undefined;
  /** Number of events so far (null: there is no log, `--events`), and number of reported ones, at most 2,000,000. */
  readonly events: number | null;
  readonly eventsWritten: number;
}

/** GET /api/events: server-sent events; `runs` (the list has changed), `jobs` (data: Job[]), `live` (data: as in LiveList). */
export type ServerEvent = "runs" | "jobs" | "live";

/** POST /api/report → text/html: the comparison of at most 1000 runs as one document without scripts. */
export interface ReportRequest {
  readonly runs: readonly string[];
  /** The definition of the hit ratio; by default `token`. */
  readonly metric?: string;
}
