import type { BatchStep } from "../../../engine/executor.ts";
import { blocksFor, promptOf, type Rows, stepOf } from "./batch-steps.ts";

/** The shapes of steps that an operator profile has times of. */
export interface ProfileGrid {
  /** Tokens of a step, for operators of each token. */
  readonly tokens: readonly number[];
  readonly sequences: readonly number[];
  /** Prefill chunks, and cached tokens before them. */
  readonly chunks: readonly number[];
  readonly cached: readonly number[];
  /** Decodes of a step without prefill, and their contexts. */
  readonly decodes: readonly number[];
  readonly contexts: readonly number[];
  /** Decodes beside a chunk, and their contexts. */
  readonly besideDecodes: readonly number[];
  readonly besideContexts: readonly number[];
  /** Most context tokens of a step. */
  readonly mostContextTokens: number;
  /** Most tokens of a prompt, cached ones included; absent: no limit. */
  readonly mostPromptTokens?: number;
}

/** A row of attention.csv: a prefill chunk over cached tokens, beside decodes of equal contexts; 0: none. */
export interface AttentionCase {
  readonly chunk: number;
  readonly cached: number;
  readonly decodes: number;
  readonly context: number;
}

export const powers = (least: number, most: number, factor = 2): number[] => {
  const all = [];
  for (let value = least; value <= most; value *= factor) all.push(value);
  return all;
};

/** Every count up to 4, further ones at most a half apart, and `most` itself. */
function countsUpTo(most: number): number[] {
  const all = [1, 2, 3, ...powers(4, most).flatMap((power) => [power, 1.5 * power])];
  return [...new Set([...all.filter((count) => count < most), most])];
}

/** A grid for an engine whose steps are measured as wholes: prompts of up to `maxPrompt` tokens, up to `maxBatch` sequences. */
export function gridUpTo(maxPrompt: number, maxBatch: number): ProfileGrid {
  const contexts = [...powers(32, maxPrompt - 1), maxPrompt];
  const batches = countsUpTo(maxBatch);
  // Each count up to 16: the simulator takes the time of the next measured count if that is at most 16 away.
  const small = Array.from({ length: 16 }, (_, i) => i + 1);
  return {
    tokens: [...new Set([...small, ...countsUpTo(Math.max(maxPrompt, maxBatch)).filter((count) => count > 16)])],
    sequences: batches,
    chunks: [...powers(16, maxPrompt - 1), maxPrompt],
    cached: [0, ...powers(64, maxPrompt, 4)],
    decodes: batches,
    contexts,
    besideDecodes: powers(1, maxBatch, 4),
    besideContexts: [...new Set([contexts[0], maxPrompt])],
    mostContextTokens: maxPrompt * (maxBatch + 1),
    mostPromptTokens: maxPrompt,
  };
}

export function attentionCases(grid: ProfileGrid): AttentionCase[] {
  const { mostContextTokens, mostPromptTokens = Number.POSITIVE_INFINITY } = grid;
  const decoding = (counts: readonly number[], contexts: readonly number[]) =>
    counts.flatMap((decodes) => contexts.map((context) => ({ decodes, context })));
  const beside = [{ decodes: 0, context: 0 }, ...decoding(grid.besideDecodes, grid.besideContexts)];
  const prefills = grid.chunks.flatMap((chunk) => grid.cached.map((cached) => ({ chunk, cached })));
  return [
    ...decoding(grid.decodes, grid.contexts).map((decode) => ({ chunk: 0, cached: 0, ...decode })),
    ...prefills.flatMap((prefill) => beside.map((decode) => ({ ...prefill, ...decode }))),
  ]
    .filter(({ chunk, cached }) => chunk + cached <= mostPromptTokens)
    .filter(({ cached, decodes, context }) => cached + decodes * context <= mostContextTokens);
}

/** Blocks of the pool in which all steps of the grid fit. */
export const profileBlocks = (grid: ProfileGrid): number =>
  blocksFor(grid.mostContextTokens + Math.max(...grid.tokens) + Math.max(...grid.chunks)) +
  Math.max(...grid.decodes, ...grid.besideDecodes, ...grid.sequences) +
  2;

/** Sequences of `lengths[i]` tokens after `cached[i]` cached ones, each in blocks of its own. */
export function stepWith(
  vocabulary: number,
  sequences: readonly { readonly tokens: number; readonly cached: number }[],
): BatchStep {
  let block = 0;
  return stepOf(
    sequences.map(({ tokens, cached }): Rows => {
      const rows = { tokens: promptOf(cached + tokens, vocabulary, block), from: cached, to: cached + tokens, block };
      block += blocksFor(rows.to);
      return rows;
    }),
  );
}

/** The step of a row of attention.csv. */
export const attentionStep = (vocabulary: number, { chunk, cached, decodes, context }: AttentionCase): BatchStep =>
  stepWith(vocabulary, [
    ...(chunk > 0 ? [{ tokens: chunk, cached }] : []),
    ...Array.from({ length: decodes }, () => ({ tokens: 1, cached: context - 1 })),
  ]);
