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
 * evicted first; the next score decides between equals.
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
    text: (name) => `/** A step takes 5 ms, and 20 microseconds for each token that it computes. */
const cost = {
  name: "${name}",
  /** Returns whole nanoseconds, at least 1. */
  stepNs: ({ prefillTokens, decodeTokens }: { readonly prefillTokens: number; readonly decodeTokens: number }) =>
    5_000_000 + 20_000 * (prefillTokens + decodeTokens),
};

export default cost;
`,
  },
  reader: {
    tryWith: "trace stats requests.csv --format ",
    text: (name) => `import { readFileSync } from "node:fs";
import { TraceBuilder } from "kvlab";

/** Reads lines "arrival in ms, input tokens, output tokens"; every prompt has content of its own. */
const reader = {
  name: "${name}",
  about: "CSV: arrival (ms), input tokens, output tokens",
  source: "my own",
  open: (files: readonly string[]) => ({
    async *batches() {
      const unitTokens = 16;
      const builder = new TraceBuilder(unitTokens);
      let next = 0;
      for (const file of files)
        for (const line of readFileSync(file, "utf8").split("\\n").filter(Boolean)) {
          const [ms, inputTokens, outputTokens] = line.split(",").map(Number);
          const keys = Array.from({ length: Math.ceil(inputTokens / unitTokens) }, () => next++);
          builder.add({ arrivalNs: ms * 1e6, inputTokens, outputTokens, keys });
        }
      yield builder.take();
    },
  }),
};

export default reader;
`,
  },
};
