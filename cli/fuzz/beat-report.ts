import { counted } from "../../core/counted.ts";
import { type Beaten, type BeatSearched, longestPrompt, mostBlocks, spareBlocks, total } from "../../lab/fuzz/beat.ts";
import type { Prompt } from "../../lab/fuzz/random-traces.ts";
import { calledAs, version } from "../../lab/package.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** What was looked for, and what came of it. */
export interface BeatRun extends BeatSearched {
  readonly labels: readonly [first: string, second: string];
  readonly seed: number;
  readonly interrupted: boolean;
  readonly wallMs: number;
  /** Of what was found: where it is, and what shows it. */
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
            prompts: words(finding.prompts),
            hits: finding.hits,
            isSmallest,
            trace: saved?.traceFile ?? null,
            commands: saved?.commands ?? [],
          }
        : null,
    },
  };
}

export function beatText(run: BeatRun): string {
  const { labels, seed, wallMs, cases, finding, interrupted, isSmallest, allUpTo } = run;
  const [first, second] = labels;
  const end = `${counted(cases, "case")}, seed ${seed}, ${(wallMs / 1000).toFixed(1)} s${interrupted ? " (interrupted)" : ""}.`;
  const all = `Every trace of up to ${counted(allUpTo, "request")} was tried ${small}.`;
  if (finding === undefined) {
    const none = `None found in ${counted(cases, "case")} on which ${first} has fewer hits than ${second}.`;
    return `${wrapped(allUpTo > 0 ? `${none} ${all}` : none, 0)}\n${end}`;
  }
  const [less, more] = finding.hits.map(total);
  const which = isSmallest
    ? `No trace of fewer requests shows it, and none of as many requests and fewer blocks ${small}.`
    : `It was found at random and made smaller, and need not be the smallest. ${allUpTo > 0 ? all : ""}`;
  const lines = [
    `${first} has ${counted(less, "hit")} and ${second} ${more}, in a cache of ${counted(finding.blocks, "block")}:`,
    "",
    table(labels, finding),
    "",
    `${wrapped(which.trim(), 0)}\n${end}`,
  ];
  if (run.saved)
    lines.push("", ...run.saved.commands.map((command) => `Shown: ${command.replace("kvlab", calledAs())}`));
  return lines.join("\n");
}

/** What all small traces are. */
const small = `that has prompts of up to ${longestPrompt} blocks and at most ${spareBlocks} blocks more than requests, in caches of up to ${mostBlocks}`;

function table(labels: readonly string[], { prompts, hits }: Beaten): string {
  const rows = words(prompts).map((prompt, i) => [String(i), prompt, String(hits[0][i]), String(hits[1][i])]);
  const head = ["request", "prompt", ...labels].map((cell) => colors.dim(cell));
  return aligned([head, ...rows], "llrr");
}

/** Each block a letter, or where there are too many a number; named as they come. */
function words(prompts: readonly Prompt[]): string[] {
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
