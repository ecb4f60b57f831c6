import { InputError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { type Trace, TraceBuilder } from "../core/trace/trace.ts";

export interface DesignOptions {
  /** Tokens that a content id stands for: a block of the engine. */
  readonly unitTokens: number;
  /** Longest prompt, what is cached of it included. */
  readonly maxTokens: number;
  /** Most requests at once. */
  readonly maxBatch: number;
  /** How often everything is measured, after once to warm up. */
  readonly rounds: number;
  readonly seed: number;
}

/** Requests that come together, of which so many begin alike with what is cached; answers of `outputTokens`. */
interface Group {
  readonly batch: number;
  readonly cachedTokens: number;
  readonly newTokens: number;
  readonly outputTokens: number;
  /** Comes while the others have got their first token: a step with prompts and answers. */
  readonly thenTokens?: number;
  /** Lengths of its requests rise evenly around what is said, as an engine may pad the short ones. */
  readonly uneven?: boolean;
}

/** Between groups: an engine that skips idle time does not wait for it, and none is under way for so long. */
const pauseNs = 1e12;
/**
 * Steps with answers alone, of a group that has some; fewer where many answer. After a prompt the first of them are slower, as
 * weights come back into the caches, and in serving most are not the first.
 */
const decodeSteps = 40;
/** Tokens of the longest answer. */
export const longestDesignedAnswer = decodeSteps + 1;
const fewDecodeSteps = 8;

/**
 * A trace whose steps are an experiment: prompts of all lengths behind cached prefixes of all lengths, one or several at
 * once; answers of few and many requests with short and long contexts; and both in the same step. Every round has all of
 * them once, in an order of its own, so that no kind of step has a slow phase of the machine for itself.
 *
 * Sequence i of every group begins with the same prefix, which is cached from the first time on; what follows is new.
 *
 * @throws InputError if there is no room for a single prompt
 */
export function calibrationTrace(options: DesignOptions): Trace {
  const { unitTokens, maxTokens, maxBatch, rounds, seed } = options;
  if (maxTokens < 2 * unitTokens)
    throw new InputError(`prompts have at most ${maxTokens} tokens, expected two blocks of ${unitTokens} at least`);
  const groups = designedGroups(options);
  const random = seededRandom(seed);
  const builder = new TraceBuilder(unitTokens);
  const prefixBlocks = Math.ceil(maxTokens / unitTokens);
  const mostCached = (prefixBlocks - 1) * unitTokens;
  let fresh = maxBatch * prefixBlocks;
  let atNs = 0;
  const add = (sequence: number, cached: number, tokens: number, outputTokens: number, arrivalNs: number) => {
    const shared = cached / unitTokens;
    const inputTokens = cached + tokens;
    const keys = Array.from({ length: Math.ceil(inputTokens / unitTokens) }, (_, block) =>
      block < shared ? sequence * prefixBlocks + block : fresh++,
    );
    builder.add({ arrivalNs, inputTokens, outputTokens, keys });
  };
  for (let sequence = 0; sequence < maxBatch; sequence++, atNs += pauseNs) add(sequence, mostCached, 1, 1, atNs);
  for (let round = 0; round <= rounds; round++) {
    for (const group of shuffled(groups, random.below)) {
      const { batch, cachedTokens, newTokens, outputTokens, thenTokens, uneven } = group;
      for (let i = 0; i < batch; i++) {
        const share = uneven ? (2 * (i + 1)) / (batch + 1) : 1;
        const cached = Math.floor(Math.min(mostCached, cachedTokens * share) / unitTokens) * unitTokens;
        const tokens = Math.min(Math.ceil(newTokens * share), maxTokens - cached);
        add(i, cached, tokens, outputTokens, atNs);
      }
      if (thenTokens !== undefined) add(0, 0, thenTokens, 1, atNs + 1);
      atNs += pauseNs;
    }
  }
  return builder.take();
}

/** When the first request of the measured rounds comes. */
export function measuredFromNs({ maxBatch, ...options }: DesignOptions): number {
  return (maxBatch + designedGroups({ maxBatch, ...options }).length) * pauseNs;
}

function designedGroups({ unitTokens, maxTokens, maxBatch }: DesignOptions): Group[] {
  const whole = (share: number) => Math.floor((share * maxTokens) / unitTokens) * unitTokens;
  const batches = powers(1, maxBatch, 2);
  const tail = Math.ceil(unitTokens / 2);
  const groups: Group[] = [];
  for (const [i, cachedTokens] of [...new Set([0, whole(1 / 8), whole(1 / 3), whole(3 / 4)])].entries()) {
    const rest = maxTokens - cachedTokens;
    // Other lengths behind every prefix: products of matrices take rows in tiles, and what is left over costs more.
    for (const newTokens of [...powers(7 + 2 * i, rest / 1.6, 3), rest - 1])
      for (const batch of [1, 2, 4].filter((count) => count <= maxBatch && (count - 1) * newTokens <= rest))
        groups.push({ batch, cachedTokens, newTokens, outputTokens: 1, uneven: batch === 4 });
    for (const batch of batches) {
      const steps = Math.max(fewDecodeSteps, Math.floor(decodeSteps / batch));
      const answers = { batch, cachedTokens, newTokens: tail, outputTokens: 1 + steps };
      groups.push(answers);
      if (batch > 1 && cachedTokens > 0) groups.push({ ...answers, uneven: true });
    }
    // Beside the most answers no prompt may have a place.
    const others = maxBatch - 1;
    for (const batch of new Set([...powers(1, others, 2), ...(others > 0 ? [others] : [])]))
      for (const share of [1 / 20, 1 / 3])
        groups.push({
          ...{ batch, cachedTokens, newTokens: tail, outputTokens: 4, uneven: true },
          thenTokens: Math.ceil(maxTokens * share * (1 + i / 4)),
        });
  }
  return groups;
}

/** `from`, and what is `factor` times as much, up to `most`. */
function powers(from: number, most: number, factor: number): number[] {
  const values: number[] = [];
  for (let value = from; Math.round(value) <= most; value *= factor) values.push(Math.round(value));
  return values;
}

function shuffled<T>(items: readonly T[], below: (n: number) => number): T[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = below(i + 1);
    [all[i], all[j]] = [all[j], all[i]];
  }
  return all;
}
