/**
 * What the dashboard's server answers; the page reads nothing else. Ratios are 0 to 1, times ns or ms as named. Who is refused is
 * told why: a status from 400 on, and `{ "error": … }`, one line.
 */

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

/** GET /api/runs/:id/log → what the run's event log holds; 404 if the run was saved without one (--events). */
export interface LogData {
  readonly events: number;
  readonly firstNs: number;
  readonly lastNs: number;
  /** The highest block number in it + 1. */
  readonly blocks: number;
  /** How many events of each kind there are, by the names of core/log/events.ts. */
  readonly kinds: Readonly<Record<string, number>>;
  /**
   * At the end of so many equal parts of the log (at most 400): idle, held and private blocks, and time; and how many were
   * evicted in each part. Drawn behind the scrubber.
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
 * GET /api/runs/:id/moment?event=&nodes= → how the cache stands after the first `event` events (at the log's end, if it has
 * fewer), with a tree of at most `nodes` (default 1500) nodes. Instead of `event`: `timeNs=` (all events up to that time), or
 * with `from=` an event and `next=` or `previous=` a kind: before the first such event from there on (it is `next[0]` then), or
 * before the last one that came earlier; without one the end of the log, or its beginning. Ages are counted in events, not ns,
 * where the log has no clock (its firstNs and lastNs are equal).
 */
export interface MomentData {
  readonly event: number;
  /** When the last of these events happened. */
  readonly timeNs: number;
  readonly steps: number;
  readonly counts: { readonly free: number; readonly private: number; readonly held: number; readonly idle: number };
  /** Requests in the order of their admission. */
  readonly running: readonly number[];
  readonly blocks: BlockMap;
  readonly tree: TreeData;
  /** What has just happened, the latest last, and what comes, the next first: a dozen of each at most. */
  readonly before: readonly EventText[];
  readonly next: readonly EventText[];
}

/** One event in words. */
export interface EventText {
  readonly event: number;
  readonly timeNs: number;
  /** By the names of core/log/events.ts. */
  readonly kind: string;
  /** −1: none. */
  readonly request: number;
  readonly block: number;
  readonly text: string;
  /** Why this and no other, of the very next event alone: what the books say of it ("idle for 12.3 s, the longest of 117 that could go"). */
  readonly why?: string;
}

/** A cell for each block, in the order of their numbers; neighbours share a cell where there are over 65,536. */
export interface BlockMap {
  readonly blocksPerCell: number;
  readonly cells: number;
  /** Bytes, as base64: 0 free, 1 private, 2 held, 3 idle. */
  readonly life: string;
  /** Bytes, as base64: how long ago it was last used, evenly from 0, just now, to 255, `oldestNs` ago; 0 where it is free or in use. */
  readonly age: string;
  /** The longest age of all. */
  readonly oldestNs: number;
  /** Bytes, as base64: hits since it was cached, 255 and more are 255. */
  readonly hits: string;
  /** 32-bit little-endian integers, as base64: the request that has it, or cached it; −1 if free, below −1 an operator who has pinned it. */
  readonly owner: string;
}

/**
 * The cached prefixes as a tree of runs of blocks, parents before their children, columns of equal length. A node is
 * cut where requests part; small ones beyond `nodes` are one node "others" of their parent.
 */
export interface TreeData {
  readonly blockTokens: number;
  /** Index of the parent; −1: it begins a prompt. */
  readonly parent: readonly number[];
  /** Tokens before it, and in it. */
  readonly fromToken: readonly number[];
  readonly tokens: readonly number[];
  /** First block of it. */
  readonly block: readonly number[];
  /** Blocks that requests use now. */
  readonly heldBlocks: readonly number[];
  /** Times that a block of it was found. */
  readonly hits: readonly number[];
  /** Since any of it was last used. */
  readonly ageNs: readonly number[];
  /** The request that cached its first block; −1: others, see `merged`. */
  readonly owner: readonly number[];
  /** Nodes that are in this one: 1, or more where small ones are one. */
  readonly merged: readonly number[];
  /** Index of the node that has the block of the very next event; −1: none has. */
  readonly next: number;
}

/** GET /api/difference?a=&b= → where the event logs of two runs of one trace part; 409 if their traces differ. */
export interface DifferenceData {
  /** Events that are the same in both; a log's length if it ended there. */
  readonly event: number;
  readonly identical: boolean;
  /** Whether times are compared, too: only of two simulations, because other runs have no clock, or one that never repeats. */
  readonly timesCompared: boolean;
  readonly a?: EventText;
  readonly b?: EventText;
}

/** GET /api/runs/:id/prefixes?most= → of the event log: at most so many (default 20) of each kind. */
export interface PrefixData {
  /** Those that saved the most tokens. */
  readonly valuable: readonly PrefixRow[];
  /** Those that took the most room for the longest time without being found again. */
  readonly wasted: readonly PrefixRow[];
  /** Of all cached blocks: token-seconds in the cache, and the part of them after the last time that they were found. */
  readonly tokenSeconds: number;
  readonly wastedTokenSeconds: number;
}

/** A run of cached blocks without a branching in it, followed through all of the log. */
export interface PrefixRow {
  /** The request that cached it first, and where in it. */
  readonly request: number;
  readonly fromToken: number;
  readonly tokens: number;
  /**
   * How often a request found it, and tokens that were not computed: in all what the report has as hitTokens and rehitTokens,
   * and those of the warm-up.
   */
  readonly hits: number;
  readonly savedTokens: number;
  /** Tokens × time in the cache, and the part of it in which nobody came any more. Events stand for seconds where there is no clock. */
  readonly tokenSeconds: number;
  readonly wastedTokenSeconds: number;
  readonly timesCached: number;
  readonly timesEvicted: number;
  /** The event that cached it first. */
  readonly event: number;
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
  readonly routers: readonly string[];
  /** Models and hardware that can be simulated. */
  readonly models: readonly string[];
  readonly hardware: readonly string[];
  /** Models that a real engine can run. */
  readonly engineModels: readonly string[];
  /** What is taken where nothing is chosen. */
  readonly defaults: Readonly<Record<"model" | "gpu" | "engineModel" | "router", string>>;
}

/**
 * POST /api/jobs → Job: a replay to start; a list of several makes a comparison (a run for each combination; of target cache
 * with its bounds). POST /api/command → JobCommand: the same, without starting anything.
 * GET /api/jobs → Job[]. DELETE /api/jobs/:id → Job: it ends soon, and is cancelled then.
 */
export interface JobRequest {
  readonly trace: string;
  readonly target: "cache" | "sim" | "cpu";
  readonly presets?: readonly string[];
  readonly indexes?: readonly string[];
  /** None: the preset's or LRU; of a comparison without a preset, every one that can differ. */
  readonly evictions?: readonly string[];
  readonly allocators?: readonly string[];
  readonly schedulers?: readonly string[];
  /** Of target sim one of `models`, of cpu one of `engineModels`. */
  readonly model?: string;
  /** Only of target sim, as the next two: one of `hardware`. */
  readonly gpu?: string;
  readonly replicas?: readonly number[];
  /** Only with several replicas. */
  readonly routers?: readonly string[];
  /** Requests a second, of targets sim and cpu. */
  readonly rates?: readonly number[];
  /** Numbers of blocks, or shares such as "10%". */
  readonly blocks?: readonly string[];
  readonly limit?: number;
  readonly warmup?: number;
  readonly seed?: number;
  /** Whether the log of every decision is kept. */
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
  /** The program's last line. */
  readonly said: string;
  /** Of its process, while there is one: of a replay there is a `LiveRow` with the same. */
  readonly pid: number | null;
  readonly runs: readonly string[];
}

/** GET /api/live → the programs under way that tell what they do (`kvlab replay --live`), the newest first; 50 at most. */
export interface LiveList {
  readonly schema: "live/1";
  readonly live: readonly (LiveRow | BrokenRun)[];
}

/** GET /api/live/:id → a program under way, and how things stand; 404 as soon as it has ended. */
export interface LiveRow {
  readonly id: string;
  /** Of its process. */
  readonly pid: number;
  /** `killed`: it is gone and could not tidy up. */
  readonly state: "running" | "saving" | "killed";
  readonly startedAtMs: number;
  readonly command: string;
  /** The run that it will be saved as, "-interrupted" behind it if a signal ends it; null if it is not saved or nobody can tell. */
  readonly run: string | null;
  readonly target: "cache" | "sim" | "cpu";
  readonly trace: string;
  readonly requests: number;
  readonly preset: string | null;
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
  readonly blocks: number | null;
  readonly blockTokens: number;
  readonly capacityTokens: number | null;
  /** null: nothing has happened yet. */
  readonly now: LiveFigures | null;
}

/**
 * All that has come of it so far. GET /api/live/:id/series → SeriesData, of whole intervals; 404 if it has no clock.
 * GET /api/live/:id/log and /api/live/:id/moment: as of a saved run, of the events that are told.
 */
export interface LiveFigures {
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
  /** Since figures began; null without a clock. */
  readonly throughput: { readonly requestsPerS: number; readonly outputTokensPerS: number } | null;
  /** Of its event log: how many have happened (null: none is kept, `--events`), and how many of them are told, at most 2,000,000. */
  readonly events: number | null;
  readonly eventsTold: number;
}

/** GET /api/events: server-sent events; `runs` (the list has changed), `jobs` (data: Job[]), `live` (data: as in LiveList). */
export type ServerEvent = "runs" | "jobs" | "live";
