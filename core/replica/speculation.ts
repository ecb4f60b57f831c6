import { chanceOf } from "../random.ts";

/** Speculative decoding: a draft proposes tokens, which one step of the target model verifies. */
export interface Speculation {
  /** Draft tokens per step and sequence. */
  readonly tokens: number;
  /** Probability that a draft token is accepted, given that those before it are. */
  readonly acceptance: number;
  readonly seed: number;
}

/**
 * Number of the first `drafts` tokens that are accepted. Each position of a request's output has its own random number, so that
 * acceptance depends on the seed alone and not on the schedule. On average a step generates (1 - a^(k+1)) / (1 - a) tokens.
 *
 * Source: Leviathan et al., ICML 2023 (arXiv 2211.17192).
 */
export function acceptedTokens(
  { acceptance, seed }: Speculation,
  request: number,
  position: number,
  drafts: number,
): number {
  const key = Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(request + 1, 0x85ebca6b);
  let accepted = 0;
  while (accepted < drafts && chanceOf(key, position + accepted) < acceptance) accepted++;
  return accepted;
}
