import fc from "fast-check";
import { seededRandom } from "../core/random.ts";
import { type Trace, TraceBuilder, type TraceRow } from "../core/trace/trace.ts";

/** A request of a workload, as plain tokens. */
export interface WorkloadRequest {
  readonly id: number;
  readonly namespace: number;
  readonly prompt: readonly number[];
  readonly output: readonly number[];
  readonly maxOutputTokens: number;
  /** Length of the marked prefix. */
  readonly markedTokens: number;
}

/** Generated requests, which `traceOf` turns into a trace. */
export interface Workload {
  /** 1: a trace of token ids; more: a trace of content ids. */
  readonly unitTokens: number;
  readonly requests: readonly WorkloadRequest[];
}

/** The first `count` tokens of a request, output tokens included, as one string that identifies the cached content. */
export function prefixOf({ namespace, prompt, output }: WorkloadRequest, count: number): string {
  const tokens =
    count <= prompt.length ? prompt.slice(0, count) : [...prompt, ...output.slice(0, count - prompt.length)];
  return JSON.stringify([namespace, tokens]);
}

interface Draft {
  readonly base: number;
  readonly keep: number;
  readonly added: readonly number[];
  readonly output: readonly number[];
  readonly namespace: number;
  readonly extra: number;
  readonly marked: number;
}

const draft = (letters: number, namespaces: number): fc.Arbitrary<Draft> =>
  fc.record({
    base: fc.nat(11),
    keep: fc.nat(14),
    added: fc.array(fc.nat(letters - 1), { minLength: 1, maxLength: 6 }),
    output: fc.array(fc.nat(letters - 1), { minLength: 1, maxLength: 6 }),
    namespace: fc.nat(namespaces - 1),
    extra: fc.nat(3),
    marked: fc.nat(14),
  });

/**
 * Random requests over an alphabet of two tokens, most of which extend an earlier request, so that prefixes overlap in
 * every way. Output tokens appear in later prompts only in a trace of token ids. `related`: nearly all requests extend one.
 */
export function workloads({ maxRequests = 12, namespaces = 2, related = false } = {}): fc.Arbitrary<Workload> {
  const drafts = fc
    .integer({ min: 1, max: namespaces })
    .chain((spaces) => fc.array(draft(2, spaces), { minLength: 1, maxLength: maxRequests }));
  return fc.record({ unitTokens: fc.constantFrom(1, 1, 2, 3), drafts }).map(({ unitTokens, drafts }) => {
    const requests: WorkloadRequest[] = [];
    drafts.forEach(({ base, keep, added, output, namespace, extra, marked }, id) => {
      const earlier = requests[related ? base % (id + 1) : base];
      const tokens = earlier ? [...earlier.prompt, ...(unitTokens === 1 ? earlier.output : [])] : [];
      const prompt = [...tokens.slice(0, keep), ...added];
      const own = unitTokens === 1 ? output : output.map((_, i) => 1000 * (id + 1) + i);
      const markedTokens = Math.min(marked, prompt.length);
      requests.push({ id, namespace, prompt, output: own, maxOutputTokens: own.length + extra, markedTokens });
    });
    return { unitTokens, requests };
  });
}

/** The session of a request, and what its client states when it has ended. Times are those of scenarios, in which a step lasts 1 ns. */
function signalsOf({ id, prompt }: WorkloadRequest): Partial<TraceRow> {
  const random = seededRandom(31 * prompt.length + id);
  return {
    session: random.below(3),
    tool: random.below(3),
    nextUseNs: random.below(6),
    nextUseSteps: random.below(4),
    keepNs: Math.max(0, random.below(16) - 8),
    sessionEnd: Math.max(0, random.below(8) - 5),
  };
}

/** The trace of these requests, in batches of `batchOf`; with `signals`, with sessions and signals of their clients. */
export function traceOf(
  { unitTokens, requests }: Workload,
  batchOf = Number.POSITIVE_INFINITY,
  { signals = false } = {},
): Trace[] {
  const ids = new Map<string, number>();
  const builder = new TraceBuilder(unitTokens);
  const batches: Trace[] = [];
  const spaces = requests.some(({ namespace }) => namespace > 0);
  for (const request of requests) {
    const { id, prompt, output, namespace, maxOutputTokens, markedTokens } = request;
    const keys = unitTokens === 1 ? prompt : contentIds(prompt, unitTokens, ids);
    builder.add({
      arrivalNs: id,
      inputTokens: prompt.length,
      outputTokens: output.length,
      maxOutputTokens,
      markedTokens,
      keys,
      ...(unitTokens === 1 && { generatedKeys: output }),
      ...(spaces && { namespace }),
      ...(signals && signalsOf(request)),
    });
    if (builder.requestCount === batchOf) batches.push(builder.take());
  }
  if (builder.requestCount > 0) batches.push(builder.take());
  return batches;
}

/** Content ids of a prompt: a number for each prefix that ends with a unit, in order of first appearance. */
export function contentIds(prompt: readonly number[], unitTokens: number, ids: Map<string, number>): number[] {
  const keys: number[] = [];
  for (let end = unitTokens; end < prompt.length + unitTokens; end += unitTokens) {
    const prefix = JSON.stringify(prompt.slice(0, end));
    if (!ids.has(prefix)) ids.set(prefix, ids.size);
    keys.push(ids.get(prefix)!);
  }
  return keys;
}
