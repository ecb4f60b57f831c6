import type { KvCache } from "../../core/cache/kv-cache.ts";
import { BlockState } from "../../core/cache/pool.ts";
import { CacheState } from "../../core/log/cache-state.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { LogEvent } from "../../core/log/events.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type OperationResult, OperationsPlayer } from "../run/operations-file.ts";
import type { Checked, FuzzCase, FuzzKind } from "./kinds.ts";
import { addTo } from "./search.ts";
import { configOf, type FuzzParts, policyOptions, type Setup } from "./setup.ts";

/** Compares the clock-free replay with the cache state that is read from its event log alone. */
export const eventLog: FuzzKind = {
  name: "event-log",
  property:
    "the state read from the event log is the cache's state, and is consistent with the results of requests and operations",
  check: async (one, parts) => audited(one, parts),
  command: replayCommand,
};

function audited(one: FuzzCase, parts: FuzzParts): Checked {
  const decisions: Record<string, number> = {};
  for (const generation of ["skip", "step"] as const) {
    const { counts, failure } = replayed(one, { ...configOf(one.setup, parts), generation });
    addTo(decisions, counts);
    if (failure) return { decisions, failure: { category: failure.replace(/\d+/g, "N"), message: failure } };
  }
  return { decisions, failure: undefined };
}

function replayed({ trace, operations }: FuzzCase, config: ReplayConfig) {
  const columns = CacheReplay.blockKeys(config, trace);
  const audit = new Auditor(trace, columns, config);
  let cache: KvCache;
  let failure: string | undefined;
  const player = new OperationsPlayer(operations, trace, columns, (result) => {
    failure ??= audit.operated(result, cache);
  });
  const before: ReplayConfig["before"] = (request, current, nowNs) => {
    cache = current;
    player.before(request, cache, nowNs);
  };
  const replay = new CacheReplay({ ...config, before, events: true, audit: true });
  for (let row = 0; row < trace.requestCount && failure === undefined; row++) {
    replay.feed(trace, columns, row, row + 1);
    failure ??= audit.read(replay.log!) ?? audit.compare(cache!);
  }
  return { counts: audit.counts, failure };
}

/** Compares a cache with the state read from its event log, and results with what the state implies. */
class Auditor {
  readonly counts: Record<string, number> = { hit: 0, evict: 0, operation: 0, other: 0 };
  readonly #state = new CacheState();
  readonly #columns: BlockColumns;
  readonly #trace: Trace;
  readonly #config: ReplayConfig;
  readonly #rules: Rules;
  #read = 0;

  constructor(trace: Trace, columns: BlockColumns, config: ReplayConfig) {
    this.#trace = trace;
    this.#columns = columns;
    this.#config = config;
    this.#rules = rulesFor(config.index, config.rules);
  }

  /** Applies the log's new events. Returns the first that contradicts the state, as a message. */
  read(log: EventLog): string | undefined {
    for (const event of log.events(this.#read)) {
      this.#state.apply(event);
      const wrong = this.#contradiction(event);
      if (wrong) return wrong;
      this.counts[event.name === "hit" || event.name === "evict" ? event.name : "other"]++;
      this.#read++;
    }
    return undefined;
  }

  #contradiction(event: LogEvent): string | undefined {
    if (event.name === "admit") return this.#admitted(event.request, event.hitBlocks);
    if (event.name === "hit") return this.#hit(event.request, event.block, event.place);
    return undefined;
  }

  /** A difference between the cache and the state, while no request is running; undefined if they agree. */
  compare({ pool, index, freeBlocks, pins }: KvCache): string | undefined {
    const { private: own, cachedHeld, cachedIdle } = this.#state.blockCounts();
    const idle = pool.words.reduce((sum, _, block) => sum + (pool.stateOf(block) === BlockState.idle ? 1 : 0), 0);
    const logged = [own, cachedHeld, cachedIdle];
    const actual = [pool.blockCount - freeBlocks - index.blockCount, index.blockCount - idle, idle];
    if (logged.join() !== actual.join())
      return `private, referenced and idle blocks are ${logged.join(", ")} by the log, ${actual.join(", ")} in the cache`;
    if (own > 0 || (pins.size === 0 && cachedHeld > 0))
      return `${own + cachedHeld} blocks are in use although no request is running`;
    const isCached = [...index.blocks()].every((block) => this.#state.isCached(block));
    return isCached && this.#state.cachedBlocks === index.blockCount
      ? undefined
      : "the cached blocks are not those of the log";
  }

  /** Compares an operation's result with the state before and after it, while no request is running. */
  operated(operation: OperationResult, cache: KvCache): string | undefined {
    this.counts["operation"]++;
    const wasCached = this.#isCached(operation);
    const wrong = this.read(cache.log!) ?? this.compare(cache);
    if (wrong) return wrong;
    const returned = `${operation.operation} returned "${operation.result}"`;
    switch (operation.operation) {
      case "pin":
      case "delete":
        if (operation.result === "in use" && cache.pins.size === 0) return `${returned}, but no block is referenced`;
        if (!this.#matchesBlocks || operation.result.startsWith("there is a pin")) return undefined;
        if (wasCached === (operation.result === "not cached"))
          return `${returned}, but by the log it ${wasCached ? "is" : "is not"} cached`;
        return operation.result === "deleted" && this.#isCached(operation)
          ? `${returned}, but by the log it is still cached`
          : undefined;
      case "evict":
        return Number.parseInt(operation.result, 10) < operation.blocks! && cache.index.evictableBlocks > 0
          ? `${returned}, but more blocks are evictable`
          : undefined;
      case "reset":
        if (operation.result === "in use")
          return cache.pins.size > 0 ? undefined : `${returned}, but no block is referenced`;
        return this.#state.cachedBlocks > 0 ? `${returned}, but by the log blocks are still cached` : undefined;
      default:
        return undefined;
    }
  }

  /** Entries are blocks, not whole prompts or marked prefixes: every cached prefix block is a hit. */
  get #matchesBlocks(): boolean {
    const { storesNothing, unit } = this.#config.index;
    return !storesNothing && unit === undefined;
  }

  /** Checks that the hits of a request are its cached prefix, as far as the rules allow. */
  #admitted(request: number, hits: number): string | undefined {
    const { blockTokens } = this.#config;
    const cached = this.#cachedPrefix(request);
    const limited = this.#rules["match-limit"] !== "all";
    const last = limited ? Math.floor((this.#trace.inputTokens[request] - 1) / blockTokens) : cached;
    const usable = Math.max(0, Math.min(cached, last) - this.#rules["drop-blocks"]);
    const isRight = this.#matchesBlocks ? hits === usable : hits <= usable;
    return isRight ? undefined : `request ${request} has ${hits} hits, ${usable} by the log`;
  }

  #hit(request: number, block: number, place: number): string | undefined {
    const [content, expected] = [this.#state.contentOf(block), this.#content(request, place)];
    return content === expected
      ? undefined
      : `request ${request} hits content ${expected} in block ${block}, which has ${content ?? "none"} by the log`;
  }

  /** True if the whole prefix of a pin or delete operation is cached. */
  #isCached({ like = 0, tokens = Number.POSITIVE_INFINITY }: OperationResult): boolean {
    const isWhole = tokens >= this.#trace.inputTokens[like];
    const blocks = isWhole ? this.#columns.promptBlocks[like] : Math.floor(tokens / this.#config.blockTokens);
    return blocks > 0 && this.#cachedPrefix(like) >= blocks;
  }

  /** Number of blocks of a prompt's cached prefix. */
  #cachedPrefix(request: number): number {
    const cached = this.#state.contents();
    let blocks = 0;
    while (blocks < this.#columns.promptBlocks[request] && cached.has(this.#content(request, blocks))) blocks++;
    return blocks;
  }

  #content(request: number, place: number): number {
    return this.#columns.keys[this.#columns.start[request] + place];
  }
}

function replayCommand(setup: Setup, file: string, operationsFile?: string): string {
  return `kvlab replay ${file} ${policyOptions(setup, operationsFile)} --audit`;
}
