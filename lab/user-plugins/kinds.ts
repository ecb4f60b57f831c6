import { isScoreOrder } from "../../core/plugins/by-score.ts";
import type {
  Allocator,
  AllocatorPlugin,
  EvictionPlugin,
  IndexPlugin,
  RouterPlugin,
  SchedulerPlugin,
} from "../../core/plugins/index.ts";
import { batchMethods, policyHooks } from "../../core/plugins/optional-methods.ts";
import type { Trace, TraceContent, TraceSource } from "../../core/trace/trace.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import type { OpenTraceOptions } from "../../traces/format.ts";
import { traceFormats } from "../../traces/open.ts";
import type { Guard } from "./guard.ts";
import { guardedIndex } from "./guarded-index.ts";
import { runningCalls } from "./running-calls.ts";

/** A cost model of a user: one for all replicas. */
export interface CostPlugin extends CostModel {
  readonly about?: string;
  readonly source?: string;
}

/** A trace reader of a user. Its format is not detected: the reader is passed as the option `format`. */
export interface ReaderPlugin {
  /** The format in reports. */
  readonly name: string;
  readonly about?: string;
  readonly source?: string;
  /**
   * Opens files that are read in order, as one trace. `batches` yields traces that one `TraceBuilder` makes; an error in a file is
   * thrown as a TraceError that names file and line. `content` is "lengths" if the requests have no keys.
   */
  open(
    files: readonly string[],
    options: OpenTraceOptions,
  ): Pick<TraceSource, "batches" | "notes"> & Partial<Pick<TraceSource, "content">>;
}

/** The kinds of plug-ins that users may write, each in a file or as a value. */
export interface Plugins {
  eviction: EvictionPlugin;
  index: IndexPlugin;
  allocator: AllocatorPlugin;
  scheduler: SchedulerPlugin;
  router: RouterPlugin;
  cost: CostPlugin;
  reader: ReaderPlugin;
}

/** Names of the kinds of plug-ins. */
export type PluginKind = keyof Plugins;

/** One kind of plug-in: identifies a file's export by its shape, and guards its calls. */
interface Kind<P> {
  /** With its article, for messages. */
  readonly label: string;
  readonly plural: string;
  readonly shape: string;
  /** The method that identifies the kind. */
  readonly method: "create" | "stepNs" | "open";
  hasShape(value: object): boolean;
  builtIn(): readonly { readonly name: string }[];
  guarded(plugin: P, guard: Guard): P;
}

const has = (value: object, name: string, type: "function" | "object") =>
  name in value && typeof (value as Record<string, unknown>)[name] === type;

const hasOnlyCreate = (value: object) => has(value, "create", "function") && !has(value, "supports", "object");

/**
 * All kinds. Eviction policies, allocators, schedulers and routers have the same shape: the command-line option determines the
 * kind, and `kvlab check` determines it by calling `create` (`createdKind`).
 */
export const kinds: { readonly [K in PluginKind]: Kind<Plugins[K]> } = {
  eviction: {
    label: "an eviction policy",
    plural: "policies",
    shape: "{ name, create }",
    method: "create",
    hasShape: hasOnlyCreate,
    builtIn: () => evictionRegistry.all,
    guarded: (plugin, guard) => ({ ...plugin, create: (context) => guardedPolicy(plugin, context, guard) }),
  },
  index: {
    label: "an index",
    plural: "indexes",
    shape: "{ name, supports, create }",
    method: "create",
    hasShape: (value) => has(value, "create", "function") && has(value, "supports", "object"),
    builtIn: () => indexRegistry.all,
    guarded: guardedIndex,
  },
  allocator: {
    label: "an allocator",
    plural: "allocators",
    shape: "{ name, create }",
    method: "create",
    hasShape: hasOnlyCreate,
    builtIn: () => allocatorRegistry.all,
    guarded: (plugin, guard) => ({
      ...plugin,
      create: (blockCount) =>
        guardedAllocator(
          guard.call("create", () => plugin.create(blockCount)),
          blockCount,
          guard,
        ),
    }),
  },
  scheduler: {
    label: "a scheduler",
    plural: "schedulers",
    shape: "{ name, create }",
    method: "create",
    hasShape: hasOnlyCreate,
    builtIn: () => schedulerRegistry.all,
    guarded: (plugin, guard) => ({
      ...plugin,
      create: (given) => {
        const made = guard.object(
          guard.call("create", () => plugin.create(given)),
          {
            noun: "scheduler",
            required: ["plan"],
            optional: ["arrived", "finished", "repeated"],
          },
        );
        const { arrived } = made;
        return {
          ...made,
          arrived(sequence, now) {
            guard.request = sequence.request.id;
            arrived?.(sequence, now);
          },
        };
      },
    }),
  },
  router: {
    label: "a router",
    plural: "routers",
    shape: "{ name, create }",
    method: "create",
    hasShape: hasOnlyCreate,
    builtIn: () => routerRegistry.all,
    guarded: (plugin, guard) => ({
      ...plugin,
      create: (given) => {
        const made = guard.object(
          guard.call("create", () => plugin.create(given)),
          {
            noun: "router",
            required: ["route"],
            optional: ["finished"],
          },
        );
        return {
          ...made,
          route(request, replicas, now) {
            guard.request = request.id;
            const replica: unknown = made.route(request, replicas, now);
            if (Number.isInteger(replica) && (replica as number) >= 0 && (replica as number) < replicas.length)
              return replica as number;
            throw guard.result("route", replica, `a replica from 0 to ${replicas.length - 1}`);
          },
        };
      },
    }),
  },
  cost: {
    label: "a cost model",
    plural: "cost models",
    shape: "{ name, stepNs }",
    method: "stepNs",
    hasShape: (value) => has(value, "stepNs", "function"),
    builtIn: () => [{ name: "roofline" }, { name: "fitted" }, { name: "recorded" }],
    guarded: (plugin, guard) => ({
      ...plugin,
      stepNs(load) {
        const ns: unknown = guard.call("stepNs", () => plugin.stepNs(load));
        if (Number.isSafeInteger(ns) && (ns as number) >= 1) return ns as number;
        throw guard.result("stepNs", ns, "a whole number of nanoseconds, at least 1");
      },
    }),
  },
  reader: {
    label: "a trace reader",
    plural: "trace readers",
    shape: "{ name, open }",
    method: "open",
    hasShape: (value) => has(value, "open", "function"),
    builtIn: () => traceFormats,
    guarded: (plugin, guard) => ({
      ...plugin,
      open: (files: readonly string[], options: OpenTraceOptions) => {
        const made = guard.object(
          guard.call("open", () => plugin.open(files, options)),
          {
            noun: "trace source",
            required: ["batches"],
            optional: ["notes"],
            flags: ["content"],
          },
        );
        const { content, notes } = made;
        return { batches: () => guardedBatches(made, guard), ...(content && { content }), ...(notes && { notes }) };
      },
    }),
  },
};

/** The kind whose shape a plug-in has; `createdKind` distinguishes those with the shape of an eviction policy. */
export const kindOf = (plugin: object): PluginKind =>
  (Object.keys(kinds) as PluginKind[]).find((kind) => kinds[kind].hasShape(plugin)) ?? "eviction";

/** `victim` throws a PolicyError unless it returns an entry or undefined. */
function guardedPolicy(plugin: EvictionPlugin, context: Parameters<EvictionPlugin["create"]>[0], guard: Guard) {
  guard.request = undefined;
  const policy = guard.call("create", () => plugin.create(context));
  const made = guard.object(policy, {
    noun: "policy",
    required: ["add", "remove", "victim"],
    optional: policyHooks,
    uncopied: batchMethods,
  });
  // Batch methods of other policies are not called, because an error in them could not be attributed to one decision.
  if (isScoreOrder(policy)) {
    made.addMany = (entries, count) => guard.call("add", () => policy.addMany(entries, count));
    made.takeMany = (into, from, to) => guard.call("victim", () => policy.takeMany(into, from, to));
    made.takeNext = (added) => guard.call("victim", () => policy.takeNext(added));
  }
  if ((policy.nextToExpire === undefined) !== (policy.expiresAt === undefined))
    throw guard.error(
      "create()",
      "returned a policy with one of nextToExpire() and expiresAt(), expected both or none",
    );
  const { begin, victim } = made;
  made.begin = (request, now) => {
    guard.request = request.id;
    begin?.(request, now);
  };
  made.victim = (now) => {
    const entry: unknown = victim(now);
    if (entry === undefined || typeof entry === "number") return entry;
    throw guard.result("victim", entry, "an entry or undefined");
  };
  return made;
}

/** @throws PolicyError if a block is allocated that is not free */
function guardedAllocator(allocator: Allocator, blockCount: number, guard: Guard): Allocator {
  const made = guard.object(allocator, {
    noun: "allocator",
    required: ["allocate", "release", "grow", "free", "reset"],
    optional: ["peek", "fragmentation"],
    numbers: ["freeBlocks"],
    flags: ["unordered"],
  });
  let isFree = new Uint8Array(blockCount).fill(1);
  const { allocate, release, grow, reset } = made;
  made.allocate = (table, from, to) => {
    allocate(table, from, to);
    for (let i = from; i < to; i++) {
      if (isFree[table[i]] !== 1) throw guard.error("allocate()", `allocated block ${table[i]}, which is not free`);
      isFree[table[i]] = 0;
    }
  };
  made.release = (blocks, from, to) => {
    release(blocks, from, to);
    for (let i = from; i < to; i++) isFree[blocks[i]] = 1;
  };
  made.grow = (count) => {
    grow(count);
    const before = isFree;
    isFree = new Uint8Array(count).fill(1);
    isFree.set(before);
  };
  made.reset = (order) => {
    reset(order);
    isFree.fill(0);
    for (const block of order) isFree[block] = 1;
  };
  return made;
}

const columns = ["arrivalNs", "inputTokens", "outputTokens", "maxOutputTokens", "keyStart", "keys"] as const;

/** @throws PolicyError if a batch is not a trace */
async function* guardedBatches(source: ReturnType<ReaderPlugin["open"]>, guard: Guard): AsyncIterable<Trace> {
  const batches = guard.call("batches", () => source.batches()[Symbol.asyncIterator]());
  for (;;) {
    const next = await runningCalls
      .during(guard, "batches", () => batches.next())
      .catch((error: unknown) => {
        throw guard.thrown("batches", error);
      });
    if (next.done) return;
    const batch: Partial<Trace> | undefined = next.value;
    for (const column of columns)
      if (!ArrayBuffer.isView(batch?.[column]))
        throw guard.error("batches()", `yielded ${column} ${typeof batch?.[column]}, expected a column of a trace`);
    if (!Number.isInteger(batch?.requestCount) || batch?.optional === undefined)
      throw guard.error("batches()", "yielded no trace, expected one built with TraceBuilder");
    yield withContent(batch as Trace, source.content, guard);
  }
}

/** The batch, marked as one of lengths if the source is. @throws PolicyError if its requests have other keys than the source states */
function withContent(batch: Trace, content: TraceContent | undefined, guard: Guard): Trace {
  const { requestCount, inputTokens, keyStart, unitTokens } = batch;
  const isLengths = content === "lengths";
  for (let r = 0; r < requestCount; r++) {
    const keys = keyStart[r + 1] - keyStart[r];
    // The partial last unit may have no key.
    if (isLengths ? keys === 0 : !batch.lengthsOnly && (keys > 0 || inputTokens[r] < unitTokens)) continue;
    const found = `yielded a request of ${inputTokens[r]} input tokens with ${keys} keys`;
    const expected = isLengths ? `none, as content is "lengths"` : `keys, or content: "lengths" beside batches()`;
    throw guard.error("batches()", `${found}, expected ${expected}`);
  }
  return isLengths ? { ...batch, lengthsOnly: true } : batch;
}
