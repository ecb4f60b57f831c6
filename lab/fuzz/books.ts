import type { KvCache } from "../../core/cache/kv-cache.ts";
import { BlockState } from "../../core/cache/pool.ts";
import { EventKind, type EventLog } from "../../core/log/events.ts";
import { LogBooks } from "../../core/log/log-books.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type OperationResult, OperationsPlayer } from "../run/operations-file.ts";
import type { Checked, FuzzCase, FuzzKind } from "./kinds.ts";
import { addTo } from "./search.ts";
import { configOf, type FuzzParts, policyOptions, type Setup } from "./setup.ts";

/** The replay without a clock against books that are kept from its log alone. */
export const books: FuzzKind = {
  name: "books",
  says: "books kept from the log alone have the blocks of the cache, and say what requests and operations find",
  check: async (one, parts) => audited(one, parts),
  command: replayCommand,
};

function audited(one: FuzzCase, parts: FuzzParts): Checked {
  const decisions: Record<string, number> = {};
  for (const generation of ["skip", "step"] as const) {
    const { counts, trouble } = replayed(one, { ...configOf(one.setup, parts), generation });
    addTo(decisions, counts);
    if (trouble) return { decisions, trouble: { sort: trouble.replace(/\d+/g, "N"), message: trouble } };
  }
  return { decisions, trouble: undefined };
}

function replayed({ trace, operations }: FuzzCase, config: ReplayConfig) {
  const columns = CacheReplay.blockKeys(config, trace);
  const audit = new Auditor(trace, columns, config);
  let cache: KvCache;
  let trouble: string | undefined;
  const player = new OperationsPlayer(operations, trace, columns, (result) => {
    trouble ??= audit.operated(result, cache);
  });
  const before: ReplayConfig["before"] = (request, its, nowNs) => {
    cache = its;
    player.before(request, cache, nowNs);
  };
  const replay = new CacheReplay({ ...config, before, events: true, audit: true });
  for (let row = 0; row < trace.requestCount && trouble === undefined; row++) {
    replay.feed(trace, columns, row, row + 1);
    trouble ??= audit.read(replay.log!) ?? audit.compare(cache!);
  }
  return { counts: audit.counts, trouble };
}

/** What is in which block, what it is to whom, and what a prompt's beginning must find: from events alone. */
class Auditor {
  readonly counts: Record<string, number> = { hit: 0, evict: 0, operation: 0, other: 0 };
  readonly #books = new LogBooks();
  readonly #contentOf = new Map<number, number>();
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

  /** Enters what has happened; returns what cannot be. */
  read(log: EventLog): string | undefined {
    const { kind, request, block, key, value } = log.columns();
    for (; this.#read < log.count; this.#read++) {
      const at = this.#read;
      this.#books.read(log, at, at + 1);
      if (kind[at] === EventKind.publish) this.#contentOf.set(block[at], key[at]);
      else if (kind[at] === EventKind.evict || kind[at] === EventKind.drop) this.#contentOf.delete(block[at]);
      const wrong =
        kind[at] === EventKind.admit
          ? this.#admitted(request[at], value[at])
          : kind[at] === EventKind.hit
            ? this.#hit(request[at], block[at], value[at])
            : undefined;
      if (wrong) return wrong;
      this.counts[kind[at] === EventKind.hit ? "hit" : kind[at] === EventKind.evict ? "evict" : "other"]++;
    }
    return undefined;
  }

  /** What the books have and the cache has not; undefined if they agree. Nobody runs. */
  compare({ pool, index, freeBlocks, pins }: KvCache): string | undefined {
    const { private: own, cachedHeld, cachedIdle } = this.#books.counts();
    const idle = pool.words.reduce((sum, _, block) => sum + (pool.stateOf(block) === BlockState.idle ? 1 : 0), 0);
    const mine = [own, cachedHeld, cachedIdle];
    const other = [pool.blockCount - freeBlocks - index.blockCount, index.blockCount - idle, idle];
    if (mine.join() !== other.join())
      return `private, held and idle blocks are ${mine.join(", ")} in the books, ${other.join(", ")} in the cache`;
    if (own > 0 || (pins.size === 0 && cachedHeld > 0)) return `${own + cachedHeld} blocks are held by nobody`;
    const isIn = [...index.blocks()].every((block) => this.#contentOf.has(block));
    return isIn && this.#contentOf.size === index.blockCount ? undefined : "other blocks are cached than in the books";
  }

  /** What an operation says, and what the books had before and have after it; nobody runs. */
  operated(operation: OperationResult, cache: KvCache): string | undefined {
    this.counts["operation"]++;
    const wasCached = this.#isCached(operation);
    const wrong = this.read(cache.log!) ?? this.compare(cache);
    if (wrong) return wrong;
    const says = `${operation.operation} says "${operation.result}"`;
    switch (operation.operation) {
      case "pin":
      case "delete":
        if (operation.result === "in use" && cache.pins.size === 0) return `${says}, and nobody uses anything`;
        if (!this.#findsAll || operation.result.startsWith("there is a pin")) return undefined;
        if (wasCached === (operation.result === "not cached"))
          return `${says}, by the books it ${wasCached ? "is" : "is not"} cached`;
        return operation.result === "deleted" && this.#isCached(operation) ? `${says}, and it is there` : undefined;
      case "evict":
        return Number.parseInt(operation.result, 10) < operation.blocks! && cache.index.evictableBlocks > 0
          ? `${says}, and more could go`
          : undefined;
      case "reset":
        if (operation.result === "in use") return cache.pins.size > 0 ? undefined : `${says}, and nobody uses anything`;
        return this.#contentOf.size > 0 ? `${says}, and something is there` : undefined;
      case "unpin":
        return undefined;
    }
  }

  /** Blocks are found by themselves, rather than whole prompts or what is marked. */
  get #findsAll(): boolean {
    const { none, unit } = this.#config.index;
    return !none && unit === undefined;
  }

  /** Of the prompt's beginning, as many blocks are hits as are cached and the rules let it use. */
  #admitted(request: number, hits: number): string | undefined {
    const { blockTokens } = this.#config;
    const found = this.#found(request);
    const limited = this.#rules["match-limit"] !== "all";
    const last = limited ? Math.floor((this.#trace.inputTokens[request] - 1) / blockTokens) : found;
    const usable = Math.max(0, Math.min(found, last) - this.#rules["drop-blocks"]);
    const isRight = this.#findsAll ? hits === usable : hits <= usable;
    return isRight ? undefined : `request ${request} has ${hits} hits, ${usable} by the books`;
  }

  #hit(request: number, block: number, place: number): string | undefined {
    const [content, expected] = [this.#contentOf.get(block), this.#key(request, place)];
    return content === expected
      ? undefined
      : `request ${request} finds content ${expected} in block ${block}, which has ${content ?? "none"} by the books`;
  }

  /** Whether there is all of a prefix that is to be pinned or deleted. */
  #isCached({ like = 0, tokens = Number.POSITIVE_INFINITY }: OperationResult): boolean {
    const isWhole = tokens >= this.#trace.inputTokens[like];
    const blocks = isWhole ? this.#columns.promptBlocks[like] : Math.floor(tokens / this.#config.blockTokens);
    return blocks > 0 && this.#found(like) >= blocks;
  }

  /** Blocks of a prompt's beginning that are cached. */
  #found(request: number): number {
    const cached = new Set(this.#contentOf.values());
    let found = 0;
    while (found < this.#columns.promptBlocks[request] && cached.has(this.#key(request, found))) found++;
    return found;
  }

  #key(request: number, place: number): number {
    return this.#columns.keys[this.#columns.start[request] + place];
  }
}

function replayCommand(setup: Setup, file: string, operationsFile?: string): string {
  return `kvlab replay ${file} ${policyOptions(setup, operationsFile)} --audit`;
}
