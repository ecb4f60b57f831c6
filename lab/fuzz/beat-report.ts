import { version } from "../package.ts";
import { type BeatSearchResult, total } from "./beat.ts";
import type { Prompt } from "./random-traces.ts";

/** A search for a trace on which the first side has fewer hits, and its result. */
export interface BeatRun extends BeatSearchResult {
  readonly labels: readonly [first: string, second: string];
  readonly seed: number;
  readonly interrupted: boolean;
  readonly wallMs: number;
  /** The file of the finding, and the commands that show it. */
  readonly saved: { readonly traceFile: string; readonly commands: readonly string[] } | undefined;
}

/** The document of `fuzz --beat --json`: schema fuzz/1, as without `--beat`. */
export function beatDocument(run: BeatRun) {
  const { labels, seed, interrupted, wallMs, cases, allUpTo, finding, isSmallest, saved } = run;
  return {
    schema: "fuzz/1",
    kvlab: version,
    seed,
    interrupted,
    cases,
    found: finding ? 1 : 0,
    wallMs,
    kinds: [],
    beat: {
      first: labels[0],
      second: labels[1],
      allUpToRequests: allUpTo,
      finding: finding
        ? {
            requests: finding.prompts.length,
            promptBlocks: total(finding.prompts.map(({ length }) => length)),
            blocks: finding.blocks,
            prompts: promptTexts(finding.prompts),
            hits: finding.hits,
            isSmallest,
            trace: saved?.traceFile ?? null,
            commands: saved?.commands ?? [],
          }
        : null,
    },
  };
}

/** Prompts as text: a letter for each block in the order of first use, or a number if there are more than 26 blocks. */
export function promptTexts(prompts: readonly Prompt[]): string[] {
  const names = new Map<number, string>();
  const all = new Set(prompts.flat());
  for (const block of all) names.set(block, all.size > 26 ? `${names.size} ` : String.fromCharCode(97 + names.size));
  return prompts.map((prompt) =>
    prompt
      .map((block) => names.get(block))
      .join("")
      .trim(),
  );
}

export type BeatDocument = ReturnType<typeof beatDocument>;
