import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { rowOf, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { hashTable } from "../../policies/index/index.ts";
import { type Control, counting } from "../control.ts";
import { defaultBlockTokens } from "../run/configuration.ts";
import { TraceStream, type TraceTotals } from "../trace-stream.ts";
import { RequestGroups } from "./request-groups.ts";

/** A sample of the groups of a trace's requests. */
export interface Sample {
  /** The chosen requests in the order of the trace. */
  readonly stream: TraceStream;
  /** By chosen request: the number of its group, from 0. */
  readonly groups: Uint32Array;
  /** Groups of the trace, and chosen ones. */
  readonly groupCount: number;
  readonly chosenGroups: number;
  /** Chosen prompt tokens ÷ all. */
  readonly tokenShare: number;
  /** Distinct tokens of content that is common to so many requests that every sample has it. */
  readonly commonTokens: number;
  /** Mean square of the prompt tokens of a group, of all groups ÷ of the chosen ones. */
  readonly squaredSize: number;
  /** Chosen requests among the leading `warmup` ones. */
  readonly warmup: number;
}

/** Each group is chosen with probability `rate`. A sample of a smaller rate and the same seed is a part of it. */
export interface Sampling extends Control {
  readonly rate: number;
  readonly seed: number;
  readonly warmup: number;
}

/**
 * Samples whole groups of requests that share content (SHARDS, Waldspurger et al. FAST'15, with groups in place of blocks, so that a
 * policy is run over whole prompts and sessions). @throws InputError if no group is chosen
 */
export async function sampleOf(whole: TraceStream, options: Sampling): Promise<Sample> {
  const { rate, seed } = options;
  const totals = await whole.count(counting(options, `reading ${whole.name}`));
  const { byRequest, count, commonTokens } = await groupsOf(whole, options);
  const random = seededRandom(seed);
  const chosen: number[] = [];
  for (let group = 0; group < count; group++) if (random.unit() < rate) chosen.push(group);
  const numberOf = new Map(chosen.map((group, number) => [group, number]));
  if (chosen.length === 0)
    throw new InputError(
      `--sample ${Number((rate * 100).toPrecision(6))}% chooses none of ${count} groups of requests that share content; expected a larger share`,
    );
  const sizes = await groupTokens(whole, byRequest, count);
  const meanSquare = (groups: Iterable<number>, of: number) => {
    let squares = 0;
    for (const group of groups) squares += sizes[group] ** 2;
    return squares / of;
  };
  const isChosen = (request: number) => numberOf.has(byRequest[request]);
  const read = () => chosenRows(whole, isChosen);
  const stream = new TraceStream({ ...whole.label, read });
  const { inputTokens } = await stream.count();
  return {
    stream,
    groups: byRequest.filter((_, request) => isChosen(request)).map((group) => numberOf.get(group)!),
    groupCount: count,
    chosenGroups: chosen.length,
    tokenShare: inputTokens / totals.inputTokens,
    commonTokens,
    squaredSize: meanSquare(sizes.keys(), count) / meanSquare(chosen, chosen.length),
    warmup: byRequest.subarray(0, options.warmup).filter((_, request) => isChosen(request)).length,
  };
}

async function groupsOf(whole: TraceStream, options: Control) {
  const { unitTokens } = await whole.head();
  const { requests } = whole.totals as TraceTotals;
  const advance = counting(options, "sampling", 2 * requests);
  const groups = new RequestGroups();
  const each = async (act: (batch: Trace, blocks: BlockColumns) => void) => {
    const prefixes = prefixesOf(unitTokens);
    for await (const batch of whole.batches()) {
      act(batch, prefixes(batch));
      advance(batch.requestCount);
    }
  };
  await each((_, blocks) => groups.count(blocks));
  await each((batch, blocks) => groups.add(batch, blocks));
  return { ...groups.groups(), commonTokens: groups.commonContents() * defaultBlockTokens(unitTokens) };
}

/** By group: its prompt tokens. */
async function groupTokens(whole: TraceStream, byRequest: Uint32Array, groups: number): Promise<Float64Array> {
  const sizes = new Float64Array(groups);
  let request = 0;
  for await (const { inputTokens } of whole.batches())
    for (const tokens of inputTokens) sizes[byRequest[request++]] += tokens;
  return sizes;
}

async function* chosenRows(whole: TraceStream, isChosen: (request: number) => boolean): AsyncGenerator<Trace> {
  const { unitTokens } = await whole.head();
  const builder = new TraceBuilder(unitTokens);
  let request = 0;
  for await (const batch of whole.batches()) {
    for (let row = 0; row < batch.requestCount; row++) {
      if (!isChosen(request++)) continue;
      // The row of the previous turn is that of another request in the sample.
      builder.add({ ...rowOf(batch, row), parent: -1 });
      if (builder.isFull) yield builder.take();
    }
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** The content ids of the trace's units, or of blocks of its tokens. Namespaces do not matter: they only make groups smaller. */
function prefixesOf(unitTokens: number): (batch: Trace) => BlockColumns {
  const blockTokens = defaultBlockTokens(unitTokens);
  if (unitTokens > 1)
    return ({ keys, keyStart: start, distinctKeys: distinct, requestCount }) => {
      const promptBlocks = Uint32Array.from({ length: requestCount }, (_, row) => start[row + 1] - start[row]);
      return { blockTokens, keys, start, promptBlocks, distinct };
    };
  const blocks = blockKeysFor({ index: hashTable, rules: {}, blockTokens }, unitTokens, { lateNamespaces: true });
  return (batch) => blocks.of(batch);
}
