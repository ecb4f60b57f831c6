import { counted } from "../../core/counted.ts";
import { type BeatFinding, longestPrompt, mostBlocks, spareBlocks, total } from "../../lab/fuzz/beat.ts";
import { type BeatRun, promptTexts } from "../../lab/fuzz/beat-report.ts";
import { calledAs } from "../../lab/package.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

export function beatText(run: BeatRun): string {
  const { labels, seed, wallMs, cases, finding, interrupted, isSmallest, allUpTo } = run;
  const [first, second] = labels;
  const end = `${counted(cases, "case")}, seed ${seed}, ${(wallMs / 1000).toFixed(1)} s${interrupted ? " (interrupted)" : ""}.`;
  const all = `All traces of up to ${counted(allUpTo, "request")} were tried, among those with ${small}.`;
  if (finding === undefined) {
    const none = `In ${counted(cases, "case")}, no trace was found on which ${first} has fewer hits than ${second}.`;
    return `${wrapped(allUpTo > 0 ? `${none} ${all}` : none, 0)}\n${end}`;
  }
  const [less, more] = finding.hits.map(total);
  const minimality = isSmallest
    ? `It is the smallest: fewest requests, then fewest blocks, among traces with ${small}.`
    : `It was found at random and shrunk; smaller ones may exist. ${allUpTo > 0 ? all : ""}`;
  const lines = [
    `${first} has ${counted(less, "hit")} and ${second} ${more}, in a cache of ${counted(finding.blocks, "block")}:`,
    "",
    table(labels, finding),
    "",
    `${wrapped(minimality.trim(), 0)}\n${end}`,
  ];
  if (run.saved)
    lines.push("", ...run.saved.commands.map((command) => `Show it: ${command.replace("kvlab", calledAs())}`));
  return lines.join("\n");
}

/** The traces that are enumerated. */
const small = `prompts of up to ${longestPrompt} blocks, at most ${spareBlocks} blocks more than requests, and caches of up to ${mostBlocks} blocks`;

function table(labels: readonly string[], { prompts, hits }: BeatFinding): string {
  const rows = promptTexts(prompts).map((prompt, i) => [String(i), prompt, String(hits[0][i]), String(hits[1][i])]);
  const head = ["request", "prompt", ...labels].map((cell) => colors.dim(cell));
  return aligned([head, ...rows], "llrr");
}
