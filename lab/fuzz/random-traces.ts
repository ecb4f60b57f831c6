import fc from "fast-check";

/** A prompt is a path from the root of a trie: each number is a node, which identifies a block and all blocks before it. */
export type Prompt = readonly number[];

export interface BeatOptions {
  readonly cases: number;
  readonly seed: number;
  readonly stopped: () => boolean;
  readonly advance: () => Promise<void>;
}

const longestPrompt = 6;

/** Each prompt extends an earlier path with new blocks. */
const anyPrompts = (mostRequests: number): fc.Arbitrary<Prompt[]> =>
  fc.array(fc.tuple(fc.nat(40), fc.nat(2)), { minLength: 1, maxLength: mostRequests, size: "max" }).map((drafts) => {
    const paths: Prompt[] = [[]];
    return drafts.map(([pick, added]) => {
      const prompt = [...paths[pick % paths.length]];
      const length = Math.min(longestPrompt, Math.max(1, prompt.length + added));
      while (prompt.length < length) {
        prompt.push(paths.length);
        paths.push([...prompt]);
      }
      return prompt;
    });
  });

/** Tries random traces and cache sizes until `isFound` returns true. */
export async function findAtRandom(
  { cases, seed, stopped, advance }: BeatOptions,
  mostRequests: number,
  isFound: (prompts: readonly Prompt[], blocks: number) => boolean,
): Promise<void> {
  const property = fc.asyncProperty(
    anyPrompts(mostRequests),
    fc.integer({ min: 1, max: 12 }),
    async (prompts, blocks) => {
      if (stopped()) return;
      await advance();
      if (isFound(prompts, blocks)) throw new Error("found");
    },
  );
  await fc.check(property, { numRuns: cases, seed, endOnFailure: true });
}
