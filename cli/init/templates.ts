// One plug-in of each kind that runs as it is, written by `kvlab init`.

interface Template {
  /** The option that takes the file. */
  readonly tryWith: string;
  text(name: string): string;
}

/** The templates by the name of their command. */
export const templates: Readonly<Record<string, Template>> = {
  policy: {
    tryWith: "compare --eviction lru,",
    text: (name) => `import { byScore, type EvictionPlugin, type EvictionPolicy } from "kvlab";

/**
 * Evicts blocks that were used once before blocks that were used again; among equals, the least recently used.
 *
 * A score is a column of the cache's entries (lastAccess, createdAt, accessCount, depth, tokens, releaseOrder,
 * recomputeCost, key), one with a minus (from large to small), or a function. The entry with the smallest score is
 * evicted first; the next score breaks ties.
 */
const policy: EvictionPlugin = {
  name: "${name}",
  about: "used once before used again, then least recently used",
  source: "my own",
  columns: ["accessCount", "lastAccess", "releaseOrder"],
  create(context): EvictionPolicy {
    const { accessCount } = context.columns;
    const used = (block: number) => Math.min(accessCount[block], 1);
    return byScore(used, "lastAccess", "releaseOrder").create(context);
  },
};

export default policy;
`,
  },
  index: {
    tryWith: "compare --index hash-table,",
    text: (
      name,
    ) => `import type { BlockId, EntryId, IndexContext, IndexPlugin, Insertion, Match, PrefixIndex } from "kvlab";

/**
 * A Map from content id to block. An entry is a block, and its number is that of the block. Of several blocks with equal content
 * the first one is stored; a request with a duplicate uses the stored block (duplicates=swap).
 */
class Index implements PrefixIndex {
  evictableBlocks = 0;
  readonly #host: IndexContext["host"];
  readonly #blockOf = new Map<number, BlockId>();

  constructor({ host }: IndexContext) {
    this.#host = host;
  }

  get blockCount(): number {
    return this.#blockOf.size;
  }

  get entryCount(): number {
    return this.#blockOf.size;
  }

  /** Writes the stored blocks of keys[start .. start + count) to the table, -1 for others; the longest prefix is a hit. */
  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    found.blocks = found.absent = found.evicted = 0;
    for (let i = 0; i < count; i++) {
      table[i] = this.#blockOf.get(keys[start + i]) ?? -1;
      if (table[i] < 0) found.absent++;
      else if (found.absent === 0) found.blocks++;
    }
  }

  matched(blocks: Int32Array, count: number): void {
    if (this.#host.countsHits) for (let i = 0; i < count; i++) this.#host.hit(blocks[i]);
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    for (let i = 0; i < count; i++) this.#host.blocked(blocks[i]);
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    this.#host.released(blocks, count);
  }

  /** Stores table[from .. to); returns false if other blocks with this content are stored, and writes those to replacements. */
  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to, partialAt, replacements } = insertion;
    let isUnchanged = true;
    for (let i = from; i < to; i++) {
      const key = keys[start + i];
      const stored = this.#blockOf.get(key);
      replacements[i - from] = table[i];
      if (stored === undefined) {
        this.#blockOf.set(key, table[i]);
        this.#host.columns.key[table[i]] = key;
        this.#host.createdBlocks(insertion, i, i + 1);
      } else if (stored !== table[i]) {
        replacements[i - from] = i === partialAt ? -1 : stored;
        isUnchanged = false;
      }
    }
    return isUnchanged;
  }

  evict(entry: EntryId): void {
    this.#blockOf.delete(this.#host.columns.key[entry]);
    this.evictableBlocks--;
    this.#host.evicted(Int32Array.of(entry), 1);
  }

  /** Removes a block although no space is needed: a reset, a deletion, a rollback. */
  drop(block: BlockId): void {
    const isIdle = this.#host.isIdle(block);
    this.#blockOf.delete(this.#host.columns.key[block]);
    if (isIdle) this.evictableBlocks--;
    this.#host.dropped(block, isIdle);
    this.#host.blockDropped(block);
  }

  blocks(): Iterable<BlockId> {
    return this.#blockOf.values();
  }

  isEvictable(entry: EntryId): boolean {
    return this.#host.isIdle(entry);
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(): void {}

  expectKeys(): void {}
}

const index: IndexPlugin = {
  name: "${name}",
  about: "a Map from content id to block",
  source: "my own",
  defaults: { duplicates: "swap" },
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: ["swap"],
    "free-order": "any",
    reserve: "any",
    collision: "any",
  },
  create: (context) => new Index(context),
};

export default index;
`,
  },
  scheduler: {
    tryWith: "replay --target sim --scheduler ",
    text: (name) => `import type { SchedulerPlugin } from "kvlab";

/** Runs at most \`max-num-seqs\` requests in order of arrival; a request without a free block is preempted. */
const scheduler: SchedulerPlugin = {
  name: "${name}",
  about: "first come, first served",
  source: "my own",
  options: { "max-num-seqs": { about: "most requests in a step", default: 16, min: 1 } },
  create: ({ options }) => ({
    plan(context) {
      for (const sequence of [...context.running])
        if (!context.schedule(sequence)) context.preempt(sequence, "recompute");
      for (let next = context.firstWaiting; next; next = context.firstWaiting) {
        if (context.running.length >= options["max-num-seqs"]) return;
        if (context.admit(next)) continue;
        if (context.running.length > 0) return;
        context.refuse(next, "it does not fit in the cache");
      }
    },
  }),
};

export default scheduler;
`,
  },
  allocator: {
    tryWith: "replay --allocator ",
    text: (name) => `import type { AllocatorPlugin } from "kvlab";

/** Allocates the block that was released last. */
const allocator: AllocatorPlugin = {
  name: "${name}",
  about: "last released, first allocated",
  source: "my own",
  create(blockCount) {
    let free = Array.from({ length: blockCount }, (_, i) => blockCount - 1 - i);
    let blocks = blockCount;
    return {
      get freeBlocks() {
        return free.length;
      },
      allocate(table, from, to) {
        for (let i = from; i < to; i++) table[i] = free.pop() as number;
      },
      release(released, from, to) {
        for (let i = from; i < to; i++) free.push(released[i]);
      },
      grow(count) {
        for (; blocks < count; blocks++) free.push(blocks);
      },
      free: () => [...free].reverse(),
      reset(order) {
        free = [...order].reverse();
      },
    };
  },
};

export default allocator;
`,
  },
  router: {
    tryWith: "replay --target sim --replicas 4 --router ",
    text: (name) => `import type { RouterPlugin } from "kvlab";

/** Routes a request to the replica with the fewest waiting and running requests. */
const router: RouterPlugin = {
  name: "${name}",
  about: "fewest requests",
  source: "my own",
  create: () => ({
    route(_request, replicas) {
      const loads = replicas.map(({ waitingCount, runningCount }) => waitingCount + runningCount);
      return loads.indexOf(Math.min(...loads));
    },
  }),
};

export default router;
`,
  },
  cost: {
    tryWith: "replay --target sim --cost ",
    text: (name) => `import type { CostModel } from "kvlab";

/** A step takes 5 ms, and 20 microseconds for each token that it computes. */
const cost: CostModel = {
  name: "${name}",
  /** Returns whole nanoseconds, at least 1. */
  stepNs: ({ prefillTokens, decodeTokens }) => 5_000_000 + 20_000 * (prefillTokens + decodeTokens),
};

export default cost;
`,
  },
  reader: {
    tryWith: "trace stats requests.csv --format ",
    text: (name) => `import { readFileSync } from "node:fs";
import { type ReaderPlugin, TraceBuilder, TraceError } from "kvlab";

/** Reads lines "arrival in ms,input tokens,output tokens"; every prompt has content of its own. */
const reader: ReaderPlugin = {
  name: "${name}",
  about: "CSV: arrival (ms), input tokens, output tokens",
  source: "my own",
  open: (files, { unitTokens = 16 }) => ({
    async *batches() {
      const builder = new TraceBuilder(unitTokens);
      let next = 0;
      for (const file of files)
        for (const [i, line] of textOf(file).split("\\n").entries()) {
          if (line.trim() === "") continue;
          const [ms, inputTokens, outputTokens, ...more] = line.split(",").map(Number);
          const isValid = ms >= 0 && inputTokens > 0 && outputTokens > 0 && more.length === 0;
          if (!isValid) throw new TraceError(\`\${file}:\${i + 1}: expected "ms,input tokens,output tokens"\`);
          // A content id per unit of the prompt; equal ids would be equal prefixes.
          const keys = Array.from({ length: Math.ceil(inputTokens / unitTokens) }, () => next++);
          builder.add({ arrivalNs: Math.round(ms * 1e6), inputTokens, outputTokens, keys });
        }
      yield builder.take();
    },
  }),
};

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new TraceError(\`\${file}: \${(error as Error).message}\`);
  }
}

export default reader;
`,
  },
};
