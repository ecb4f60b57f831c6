import fc from "fast-check";
import { type Trace, TraceBuilder } from "../core/trace/trace.ts";

/** A request as a naive reader sees it: nothing but tokens. */
export interface WorldRequest {
  readonly id: number;
  readonly namespace: number;
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly maxOutputTokens: number;
  /** How much of the prompt its user has marked as a prefix that others have, too. */
  readonly markedTokens: number;
}

/** Requests, and the same as a trace. */
export interface World {
  /** 1: a trace of token ids; more: a trace of content ids. */
  readonly unitTokens: number;
  readonly asks: readonly WorldRequest[];
}

/** The first `count` tokens of a request, answer included, as one string: the whole identity of cached content. */
export function prefixOf({ namespace, prompt, answer }: WorldRequest, count: number): string {
  const said = count <= prompt.length ? prompt.slice(0, count) : [...prompt, ...answer.slice(0, count - prompt.length)];
  return JSON.stringify([namespace, said]);
}

interface Draft {
  readonly base: number;
  readonly keep: number;
  readonly added: readonly number[];
  readonly answer: readonly number[];
  readonly namespace: number;
  readonly extra: number;
  readonly marked: number;
}

const draft = (letters: number, namespaces: number): fc.Arbitrary<Draft> =>
  fc.record({
    base: fc.nat(11),
    keep: fc.nat(14),
    added: fc.array(fc.nat(letters - 1), { minLength: 1, maxLength: 6 }),
    answer: fc.array(fc.nat(letters - 1), { minLength: 1, maxLength: 6 }),
    namespace: fc.nat(namespaces - 1),
    extra: fc.nat(3),
    marked: fc.nat(14),
  });

/**
 * Requests over an alphabet of two letters, most of which continue an earlier one, so that prefixes meet in every way.
 * Answers can be prompts later only where the trace knows their tokens. `related`: hardly any request begins anew.
 */
export function worlds({ maxAsks = 12, namespaces = 2, related = false } = {}): fc.Arbitrary<World> {
  const drafts = fc
    .integer({ min: 1, max: namespaces })
    .chain((spaces) => fc.array(draft(2, spaces), { minLength: 1, maxLength: maxAsks }));
  return fc.record({ unitTokens: fc.constantFrom(1, 1, 2, 3), drafts }).map(({ unitTokens, drafts }) => {
    const asks: WorldRequest[] = [];
    drafts.forEach(({ base, keep, added, answer, namespace, extra, marked }, id) => {
      const earlier = asks[related ? base % (id + 1) : base];
      const said = earlier ? [...earlier.prompt, ...(unitTokens === 1 ? earlier.answer : [])] : [];
      const prompt = [...said.slice(0, keep), ...added];
      const own = unitTokens === 1 ? answer : answer.map((_, i) => 1000 * (id + 1) + i);
      const markedTokens = Math.min(marked, prompt.length);
      asks.push({ id, namespace, prompt, answer: own, maxOutputTokens: own.length + extra, markedTokens });
    });
    return { unitTokens, asks };
  });
}

/** The trace that a reader would make of these requests. */
export function traceOf({ unitTokens, asks }: World, batchOf = Number.POSITIVE_INFINITY): Trace[] {
  const ids = new Map<string, number>();
  const builder = new TraceBuilder(unitTokens);
  const batches: Trace[] = [];
  const spaces = asks.some(({ namespace }) => namespace > 0);
  for (const ask of asks) {
    const { id, prompt, answer, namespace, maxOutputTokens, markedTokens } = ask;
    const keys = unitTokens === 1 ? prompt : contentIds(prompt, unitTokens, ids);
    builder.add({
      arrivalNs: id,
      inputTokens: prompt.length,
      outputTokens: answer.length,
      maxOutputTokens,
      markedTokens,
      keys,
      ...(unitTokens === 1 && { generatedKeys: answer }),
      ...(spaces && { namespace }),
    });
    if (builder.requestCount === batchOf) batches.push(builder.take());
  }
  if (builder.requestCount > 0) batches.push(builder.take());
  return batches;
}

/** A number for each prefix that ends with a unit, in order of first appearance. */
export function contentIds(prompt: readonly number[], unitTokens: number, ids: Map<string, number>): number[] {
  const keys: number[] = [];
  for (let end = unitTokens; end < prompt.length + unitTokens; end += unitTokens) {
    const prefix = JSON.stringify(prompt.slice(0, end));
    if (!ids.has(prefix)) ids.set(prefix, ids.size);
    keys.push(ids.get(prefix)!);
  }
  return keys;
}
