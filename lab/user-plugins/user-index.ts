import { InputError, InvariantError, PolicyError } from "../../core/errors.ts";
import type { IndexContext, IndexHost, IndexPlugin, PrefixIndex, SchedulerPlugin } from "../../core/plugins/index.ts";
import { parseRule } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { calledAs } from "../package.ts";
import { messageOf } from "./user-code.ts";
import { isIndex, loadUserPlugin } from "./user-policy.ts";

/** A prefix index from a user's file. */
export interface UserIndex extends IndexPlugin {
  /** As the user named it. */
  readonly file: string;
  /** The same scheduler; from it the index's guard knows which request is being served. */
  watching(scheduler: SchedulerPlugin): SchedulerPlugin;
  /** What the cache found wrong, as the mistake of this index. */
  blamedFor(error: Error): PolicyError;
}

export const isUserIndex = (index: IndexPlugin): index is UserIndex => "file" in index;

/**
 * Loads a user's index. Every call of it is guarded: what it throws, and what it finds, stores and evicts otherwise than
 * it was told, is its mistake and not ours.
 *
 * @throws InputError if the file is not there, cannot be read as a program, or exports no index.
 */
export async function loadUserIndex(file: string): Promise<UserIndex> {
  const expected = "an index { name, supports, create }";
  const plugin = await loadUserPlugin(file, undefined, expected);
  if (!isIndex(plugin)) throw new InputError(`${file}: exports an eviction policy, expected ${expected}`);
  checkRules(file, plugin);
  const seen: Seen = { request: undefined };
  return {
    ...plugin,
    file,
    create: (context, blockCount) => guarded(file, plugin, context, blockCount, seen),
    watching: (scheduler) => watched(scheduler, seen),
    blamedFor(error) {
      const where = seen.request === undefined ? "" : `at request ${seen.request}: `;
      return new PolicyError(`${file}: ${where}${messageOf(error)}; ${calledAs()} check ${file} says more`);
    },
  };
}

/** Whether the cache would not have failed like this with an index that keeps to its contract. */
export const isFailure = (error: unknown): error is Error =>
  error instanceof InvariantError || error instanceof TypeError || error instanceof RangeError;

/** @throws InputError if what the index says of rules makes no sense, or its own defaults are not among it. */
export function checkRules(file: string, plugin: IndexPlugin): void {
  const wrong = (why: string) => new InputError(`${file}: ${why}`);
  for (const [name, values] of Object.entries(plugin.supports)) {
    if (values !== "any" && !Array.isArray(values))
      throw wrong(`supports.${name} is ${JSON.stringify(values)}, expected "any" or a list of values`);
  }
  try {
    for (const [name, values] of Object.entries(plugin.supports))
      for (const value of values === "any" ? [] : values) parseRule(name, String(value));
    for (const [name, value] of Object.entries(plugin.defaults ?? {})) parseRule(name, String(value));
  } catch (error) {
    throw wrong(messageOf(error));
  }
  try {
    rulesFor(plugin, {});
  } catch (error) {
    throw wrong(`${messageOf(error)}, so { defaults } has to name one of those`);
  }
}

/** What is known of the request that is being served. */
interface Seen {
  request: number | undefined;
}

const when = ({ request }: Seen) => (request === undefined ? "" : ` at request ${request}`);

function watched(plugin: SchedulerPlugin, seen: Seen): SchedulerPlugin {
  return {
    ...plugin,
    create(options) {
      const scheduler = plugin.create(options);
      return {
        plan: (context) => scheduler.plan(context),
        repeated: (steps) => scheduler.repeated?.(steps),
        arrived(sequence, now) {
          seen.request = sequence.request.id;
          scheduler.arrived?.(sequence, now);
        },
        finished: (sequence, now) => scheduler.finished?.(sequence, now),
      };
    },
  };
}

const plain = ["matched", "referenced", "forget", "isEvictable", "entryOf", "grow", "expectKeys"] as const;
const optional = ["matchPart", "isLeaf", "cut", "stores", "oldest", "duplicatesOf"] as const;
const required = ["match", "insert", "released", "evict", "blocks", ...plain] as const;
const counts = ["evictableBlocks", "blockCount", "entryCount"] as const;

/** What a block holds that is not stored. */
const nothing = -1;

/** The index with every call watched. @throws PolicyError with file, method and request. */
function guarded(file: string, plugin: IndexPlugin, context: IndexContext, blockCount: number, seen: Seen) {
  seen.request = undefined;
  const wrong = (method: string, why: string) => new PolicyError(`${file}: ${method}${when(seen)} ${why}`);
  const watch = <Result>(method: string, call: () => Result): Result => {
    try {
      return call();
    } catch (error) {
      // An eviction policy's mistake, or what the cache found.
      if (error instanceof PolicyError || error instanceof InvariantError) throw error;
      throw new PolicyError(`${file}: ${method}() threw${when(seen)}: ${messageOf(error)}`);
    }
  };
  const books = new Books(blockCount);
  const own = { ...context, host: toldHost(context.host, books) };
  const index: PrefixIndex = watch("create", () => plugin.create(own, blockCount));
  for (const method of required) {
    if (typeof index?.[method] === "function") continue;
    throw wrong("create()", `gave no index with ${method}(), expected ${required.join(", ")}`);
  }
  for (const count of counts) {
    if (typeof watch(count, () => index[count]) === "number") continue;
    throw wrong("create()", `gave no index with ${count}, expected a number`);
  }
  const calls: Partial<Record<(typeof plain | typeof optional)[number], unknown>> = {};
  for (const method of [...plain, ...optional]) {
    const call = index[method] as ((...args: unknown[]) => unknown) | undefined;
    if (call) calls[method] = (...args: unknown[]) => watch(method, () => call.apply(index, args));
  }
  const { grow } = index;
  const { leaves, evictMany } = index;
  return {
    ...(calls as Pick<PrefixIndex, (typeof plain | typeof optional)[number]>),
    ...(index.remembersEvicted === true && { remembersEvicted: true as const }),
    get evictableBlocks() {
      return watch("evictableBlocks", () => index.evictableBlocks);
    },
    get blockCount() {
      return watch("blockCount", () => index.blockCount);
    },
    get entryCount() {
      return watch("entryCount", () => index.entryCount);
    },
    blocks: () => watch("blocks", () => [...index.blocks()]),
    grow(blocks) {
      books.grow(blocks);
      watch("grow", () => grow.call(index, blocks));
    },
    match(keys, start, count, table, found) {
      watch("match", () => index.match(keys, start, count, table, found));
      const { blocks } = found;
      if (!(Number.isInteger(blocks) && blocks >= 0 && blocks <= count))
        throw wrong("match()", `found ${blocks} of ${count} blocks`);
      for (let i = 0; i < count; i++) {
        const isFound = table[i] >= 0 || i < blocks;
        if (isFound && !books.holds(table[i], keys[start + i]))
          throw wrong("match()", `found block ${table[i]} at place ${i}, which ${books.whatIsIn(table[i])}`);
      }
    },
    insert(insertion) {
      const asTheyAre: unknown = watch("insert", () => index.insert(insertion));
      if (typeof asTheyAre !== "boolean") throw wrong("insert()", `gave ${typeof asTheyAre}, expected true or false`);
      const { keys, start, table, from, to, instead } = insertion;
      for (let i = from; i < to; i++) {
        const kept = asTheyAre ? table[i] : instead[i - from];
        if (kept === table[i]) books.stored(kept, keys[start + i]);
        else if (kept !== nothing && !books.holds(kept, keys[start + i]))
          throw wrong("insert()", `put block ${kept} in the place of ${table[i]}, which ${books.whatIsIn(kept)}`);
      }
      return asTheyAre;
    },
    released(blocks, count) {
      watch("released", () => index.released(blocks, count));
      for (let i = 0; i < count; i++) {
        const entry = watch("entryOf", () => index.entryOf(blocks[i]));
        if (!books.isToldOf(entry) && watch("isEvictable", () => index.isEvictable(entry)))
          throw wrong("released()", `did not tell the cache that entry ${entry} may go`);
      }
    },
    evict(entry, wantedBlocks) {
      books.tell(entry, false);
      const before = books.evictedBlocks;
      watch("evict", () => index.evict(entry, wantedBlocks));
      if (books.evictedBlocks === before) throw wrong(`evict(${entry})`, "told host.evicted of no block");
    },
    ...(evictMany && {
      evictMany(entries: Int32Array, from: number, to: number) {
        for (let i = from; i < to; i++) books.tell(entries[i], false);
        books.gone(entries, from, to);
        watch("evictMany", () => evictMany.call(index, entries, from, to));
      },
    }),
    ...(leaves && {
      leaves: {
        evictLeaf(entry: number) {
          books.tell(entry, false);
          books.gone([entry], 0, 1);
          const above = watch("evictLeaf", () => leaves.evictLeaf(entry));
          if (above >= 0) books.tell(above, true);
          return above;
        },
      },
    }),
  } satisfies PrefixIndex;
}

/** The cache as the index sees it, whose books are kept on the way. */
function toldHost(host: IndexHost, books: Books): IndexHost {
  return {
    get columns() {
      return host.columns;
    },
    get countsHits() {
      return host.countsHits;
    },
    isIdle: (block) => host.isIdle(block),
    isPinned: (block) => host.isPinned(block),
    created: (entry, depth, tokens, key) => host.created(entry, depth, tokens, key),
    createdBlocks: (insertion, from, to) => host.createdBlocks(insertion, from, to),
    hit: (entry) => host.hit(entry),
    touch: (entry) => host.touch(entry),
    evictable(entry) {
      books.tell(entry, true);
      host.evictable(entry);
    },
    touchMany: (entries, count) => host.touchMany(entries, count),
    released(entries, count) {
      for (let i = 0; i < count; i++) books.tell(entries[i], true);
      host.released(entries, count);
    },
    blocked(entry) {
      books.tell(entry, false);
      host.blocked(entry);
    },
    dropped(entry, wasEvictable) {
      books.tell(entry, false);
      host.dropped(entry, wasEvictable);
    },
    split: (lower, upper, depth, tokens) => host.split(lower, upper, depth, tokens),
    resized: (entry, depth, tokens, key) => host.resized(entry, depth, tokens, key),
    evicted(blocks, count) {
      books.gone(blocks, 0, count);
      host.evicted(blocks, count);
    },
    forgotten(block) {
      books.gone([block], 0, 1);
      host.forgotten(block);
    },
  };
}

/** Which content each block was stored with, and which entries may go as far as the cache has been told. */
class Books {
  evictedBlocks = 0;
  #contents: Float64Array;
  #mayGo: Uint8Array;

  constructor(blockCount: number) {
    this.#contents = new Float64Array(blockCount).fill(nothing);
    this.#mayGo = new Uint8Array(blockCount);
  }

  tell(entry: number, mayGo: boolean): void {
    this.#mayGo[entry] = mayGo ? 1 : 0;
  }

  isToldOf(entry: number): boolean {
    return this.#mayGo[entry] === 1;
  }

  grow(blockCount: number): void {
    const before = this.#contents;
    this.#contents = new Float64Array(blockCount).fill(nothing);
    this.#contents.set(before);
    const told = this.#mayGo;
    this.#mayGo = new Uint8Array(blockCount);
    this.#mayGo.set(told);
  }

  stored(block: number, content: number): void {
    this.#contents[block] = content;
  }

  gone(blocks: ArrayLike<number>, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#contents[blocks[i]] = nothing;
    this.evictedBlocks += to - from;
  }

  holds(block: number, content: number): boolean {
    return this.#contents[block] === content;
  }

  whatIsIn(block: number): string {
    const content = this.#contents[block];
    if (content === undefined) return "does not exist";
    return content === nothing ? "is not stored" : "holds something else";
  }
}
