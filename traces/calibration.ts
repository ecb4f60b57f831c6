import { InputError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { type Trace, TraceBuilder } from "../core/trace/trace.ts";

export interface DesignOptions {
  /** Tokens per content id: the engine's block size. */
  readonly unitTokens: number;
  /** Longest prompt in tokens, including its cached prefix. */
  readonly maxTokens: number;
  /** Most concurrent requests. */
  readonly maxBatch: number;
  /** Number of measured rounds, after one warm-up round. */
  readonly rounds: number;
  readonly seed: number;
}

/** Requests that arrive together, each with a cached prefix and `outputTokens` output tokens. */
interface Group {
  readonly batch: number;
  readonly cachedTokens: number;
  readonly newTokens: number;
  readonly outputTokens: number;
  /** Length of one more prompt that arrives while the group decodes, so that a step has prefill and decode. */
  readonly thenTokens?: number;
  /** The lengths of its requests are spread evenly around the given one, as an engine may pad short ones. */
  readonly uneven?: boolean;
}

/** Time between groups: longer than any group runs; an engine that skips idle periods does not wait for it. */
const pauseNs = 1e12;
/**
 * Decode-only steps of a group; fewer for large batches. The first ones after a prefill are slower, as the weights are
 * loaded into the CPU caches again; in serving most decode steps do not follow a prefill.
 */
const decodeSteps = 40;
/** Longest output in tokens. */
export const longestDesignedOutput = decodeSteps + 1;
const fewDecodeSteps = 8;

/**
 * A trace of designed steps for calibration: prefill of all lengths after cached prefixes of all lengths, of one or several
 * prompts; decode of small and large batches with short and long contexts; and both in one step. Every round contains each
 * of them once, in random order, so that a slow phase of the machine does not affect one kind of step only.
 *
 * Sequence i of every group begins with the same prefix, which is cached after its first use; the rest is new content.
 *
 * @throws InputError if `maxTokens` is too small for a single prompt
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

/** Arrival of the first request of the measured rounds. */
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
    // Different lengths after every prefix, as matrix products process rows in tiles and a partial tile costs more.
    for (const newTokens of [...powers(7 + 2 * i, rest / 1.6, 3), rest - 1])
      for (const batch of [1, 2, 4].filter((count) => count <= maxBatch && (count - 1) * newTokens <= rest))
        groups.push({ batch, cachedTokens, newTokens, outputTokens: 1, uneven: batch === 4 });
    for (const batch of batches) {
      const steps = Math.max(fewDecodeSteps, Math.floor(decodeSteps / batch));
      const decodes = { batch, cachedTokens, newTokens: tail, outputTokens: 1 + steps };
      groups.push(decodes);
      if (batch > 1 && cachedTokens > 0) groups.push({ ...decodes, uneven: true });
    }
    // With `maxBatch` decoding requests a step may have no room for a prompt.
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

/** `from` · `factor`^i, up to `most`. */
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
