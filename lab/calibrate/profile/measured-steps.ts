import { seededRandom } from "../../../core/random.ts";
import { median } from "../../../core/serving/distribution.ts";
import { WallClock } from "../../../engine/clock.ts";
import type { BatchStep, Executor } from "../../../engine/executor.ts";
import { Curve } from "../../../sim/cost/profile/curve.ts";
import { denseLayer } from "../../../sim/cost/profile/profile.ts";
import { throwIfInterrupted, yieldToEvents } from "../../control.ts";
import { blockTokens, greedyStep } from "./batch-steps.ts";
import { type AttentionCase, attentionCases, attentionStep, type ProfileGrid, stepWith } from "./grid.ts";
import type { ProfileTables } from "./profile-files.ts";

/** A step, and the key under which its times are collected. */
interface NamedStep {
  readonly key: string;
  readonly step: BatchStep;
}

const denseKey = (tokens: number) => `dense ${tokens}`;
const logitsKey = (sequences: number, withLogits: boolean) => `logits ${sequences} ${withLogits}`;
const attentionKey = (one: AttentionCase) => `attention ${Object.values(one).join()}`;
/** Half of the decodes of a batch have the shortest context and half have the longest; or all have one of these, or their mean. */
const unequalKey = (decodes: number, contexts: string) => `unequal ${decodes} ${contexts}`;

const withoutLogits = (step: BatchStep): BatchStep => ({ ...step, logitsIndices: new Int32Array(0) });

/** The steps of a grid. Prompts of one block have nearly no attention, so that a step of many of them is that of the dense layers. */
function stepsOf(grid: ProfileGrid, vocabulary: number): NamedStep[] {
  const blocks = (tokens: number) =>
    Array.from({ length: Math.ceil(tokens / blockTokens) }, (_, i) => ({
      tokens: Math.min(blockTokens, tokens - i * blockTokens),
      cached: 0,
    }));
  const decodes = (count: number, context: (i: number) => number) =>
    stepWith(
      vocabulary,
      Array.from({ length: count }, (_, i) => ({ tokens: 1, cached: context(i) - 1 })),
    );
  return [
    ...grid.tokens.map((tokens) => ({
      key: denseKey(tokens),
      step: withoutLogits(stepWith(vocabulary, blocks(tokens))),
    })),
    ...grid.sequences.flatMap((sequences) => {
      const step = decodes(sequences, () => 1);
      return [
        { key: logitsKey(sequences, false), step: withoutLogits(step) },
        { key: logitsKey(sequences, true), step },
      ];
    }),
    ...attentionCases(grid).map((one) => ({ key: attentionKey(one), step: attentionStep(vocabulary, one) })),
    ...unequalBatches(grid).flatMap((count) => {
      const { least, mean, most } = unequalContexts(grid);
      return [
        { key: unequalKey(count, "halves"), step: decodes(count, (i) => (i % 2 === 0 ? least : most)) },
        { key: unequalKey(count, "mean"), step: decodes(count, () => mean) },
        { key: unequalKey(count, "most"), step: decodes(count, () => most) },
      ];
    }),
  ];
}

const unequalBatches = ({ decodes }: ProfileGrid) => decodes.filter((count) => count > 1 && count % 2 === 0);

function unequalContexts({ contexts }: ProfileGrid) {
  const [least, most] = [Math.min(...contexts), Math.max(...contexts)];
  return { least, mean: Math.round((least + most) / 2), most };
}

export interface MeasuredProfile {
  readonly tables: ProfileTables;
  /** `OperatorProfile.skew`. */
  readonly skew: number;
  /** Each measurement ÷ the median of its step − 1. */
  readonly spread: readonly number[];
}

export interface MeasureOptions {
  readonly grid: ProfileGrid;
  readonly vocabulary: number;
  readonly layers: number;
  readonly rounds: number;
  readonly seed: number;
  /** Called with the number of further measurements. */
  readonly advance: (steps: number) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Measurements of a profile, those of the first round included, which is discarded. */
export const measurementCount = ({ grid, vocabulary, rounds }: Omit<MeasureOptions, "advance">): number =>
  stepsOf(grid, vocabulary).length * (rounds + 1);

/**
 * Times of an executor's steps, divided so that their sum is exact at each measured step: the dense layers by the tokens of a step,
 * logits and sampling by its sequences, and everything else as attention. Each step is measured once a round, in a random order, so
 * that a slow phase of the machine affects all of them; the median counts.
 *
 * @throws Interrupted if the signal is aborted
 */
export async function measureProfile(executor: Executor, options: MeasureOptions): Promise<MeasuredProfile> {
  const { grid, vocabulary, rounds, seed, advance, signal } = options;
  const steps = stepsOf(grid, vocabulary);
  const random = seededRandom(seed);
  const times = new Map(steps.map(({ key }) => [key, [] as number[]]));
  const clock = new WallClock();
  const asServed = executor.canSample?.(greedy) ? greedyStep : (step: BatchStep) => step;
  for (let round = 0; round <= rounds; round++)
    for (const { key, step } of shuffled(steps, random)) {
      throwIfInterrupted(signal);
      const served = asServed(step);
      const startNs = clock.now();
      await executor.executeStep(served);
      if (round > 0) times.get(key)!.push(clock.now() - startNs);
      advance(1);
      await yieldToEvents(signal);
    }
  return { ...dividedTimes(times, options), spread: [...times.values()].flatMap(relativeToMedian) };
}

const greedy = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1, position: 0 };

function relativeToMedian(times: readonly number[]): number[] {
  const middle = median(times);
  return times.map((time) => time / middle - 1);
}

function shuffled<Item>(items: readonly Item[], random: ReturnType<typeof seededRandom>): Item[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [all[i], all[j]] = [all[j], all[i]];
  }
  return all;
}

/** `times`: by key, in ns. */
export function dividedTimes(
  times: ReadonlyMap<string, readonly number[]>,
  { grid, layers }: Pick<MeasureOptions, "grid" | "layers">,
): Pick<MeasuredProfile, "tables" | "skew"> {
  const usOf = (key: string) => median(times.get(key)!) / 1e3;
  const dense = grid.tokens.map((tokens) => ({ layer: denseLayer, tokens, us: usOf(denseKey(tokens)) / layers }));
  const perSequence = grid.sequences.map((sequences) => ({
    ...{ layer: "lm_head", sequences },
    us: Math.max(0, usOf(logitsKey(sequences, true)) - usOf(logitsKey(sequences, false))),
  }));
  const denseCurve = curveOf(dense.map(({ tokens, us }) => [tokens, layers * us]));
  const sequenceCurve = curveOf(perSequence.map(({ sequences, us }) => [sequences, us]));
  const attention = attentionCases(grid).map((one) => {
    const sequences = one.decodes + (one.chunk > 0 ? 1 : 0);
    const others = denseCurve.at(one.chunk + one.decodes) + sequenceCurve.at(sequences);
    return { ...one, us: Math.max(0, usOf(attentionKey(one)) - others) / layers };
  });
  const shares = unequalBatches(grid).flatMap((count) => {
    const [halves, mean, most] = ["halves", "mean", "most"].map((contexts) => usOf(unequalKey(count, contexts)));
    return most > mean ? [Math.min(1, Math.max(0, (halves - mean) / (most - mean)))] : [];
  });
  return { tables: { dense, perSequence, attention }, skew: shares.length > 0 ? median(shares) : 0 };
}

const curveOf = (points: readonly (readonly [count: number, us: number])[]) =>
  new Curve(
    points.map(([count]) => count),
    points.map(([, us]) => us),
  );
