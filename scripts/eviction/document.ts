import { format } from "d3-format";
import { belady, lru } from "../../policies/eviction/index.ts";
import { type Group, gapClosed, grouped, type Measured, shares } from "./measure.ts";

const grouping = format(",");
/** Narrower bands, and smaller differences between indexes, are not shown; in hit ratio. */
const leastBand = 0.005;
const leastDifference = 0.0005;

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const percent = (ratio: number) => (100 * ratio).toFixed(2);
const namesOf = (policies: readonly string[]) => policies.map((name) => `\`${name}\``).join(", ");

const header = [row(["", ...shares.map((share) => `${100 * share} %`)]), row(["---", ...shares.map(() => "---:")])];

/** The lines that the command writes for a trace: its figure and its numbers, as Markdown. */
export function tables(title: string, picture: string, measured: Measured): string {
  const { requests, promptBlocks, distinctBlocks, blockTokens, capacities, tooLong, withoutSignal } = measured;
  const groups = grouped(measured.curves).toSorted((a, b) => sum(b.ratio) - sum(a.ratio));
  const changed = groups.filter(({ ratio, inTree }) =>
    ratio.some((value, i) => Math.abs(inTree[i] - value) >= leastDifference),
  );
  return [
    `![${title}: hit ratio by capacity of all eviction policies, and the share of the gap to the bound that each closes](${picture})`,
    "",
    `${grouping(requests)} requests, ${grouping(promptBlocks)} prompt blocks of ${blockTokens} tokens, ${grouping(distinctBlocks)} distinct.`,
    `Capacities: ${capacities.map(grouping).join(", ")} blocks; requests that do not fit: ${tooLong.map(grouping).join(", ")}. Block hit ratio in %, and the band if it is at least ${100 * leastBand} points wide:`,
    "",
    ...header,
    row(["**bound**", ...measured.bound.map(percent)]),
    ...groups.map((group) => row([namesOf(group.policies), ...group.ratio.map((_, i) => cell(group, i))])),
    "",
    `An unlimited cache: ${percent(measured.unlimited)} %.${withoutSignal.length > 0 ? ` Not run, because the trace has no signals for them: ${namesOf(withoutSignal)}.` : ""}`,
    "",
    "Radix tree, which evicts only leaves, less hash table, in percentage points; policies without a row differ by less than",
    `${100 * leastDifference} at every capacity:`,
    "",
    ...header,
    ...changed.map(({ policies, ratio, inTree }) =>
      row([namesOf(policies), ...ratio.map((value, i) => points(inTree[i] - value))]),
    ),
  ].join("\n");
}

/** A measured trace. */
export interface MeasuredTrace {
  readonly title: string;
  readonly measured: Measured;
}

/** The lines that compare all traces: the best policy by capacity, and how far each policy is above or below LRU. */
export function summary(traces: readonly MeasuredTrace[]): string {
  const online = (measured: Measured) => measured.curves.filter(({ policy }) => policy !== belady.name);
  const best = traces.map(({ title, measured }) => {
    const cells = shares.map((_, i) => {
      const base = lruOf(measured);
      const curve = online(measured).reduce((first, other) => (other.ratio[i] > first.ratio[i] ? other : first), base);
      const share = gapClosed(measured, curve.ratio)[i];
      if (share === undefined || curve.ratio[i] - base.ratio[i] < leastDifference) return "–";
      return `\`${curve.policy}\` ${(100 * share).toFixed(0)} %`;
    });
    return row([title, ...cells]);
  });
  const names = [...new Set(traces.flatMap(({ measured }) => online(measured).map(({ policy }) => policy)))];
  const ranges = names
    .map((name) => ({
      title: titleOf(name, traces),
      small: rangeOf(name, traces, isSmall),
      large: rangeOf(name, traces, (share) => !isSmall(share)),
    }))
    .toSorted((a, b) => Math.min(b.small.least, b.large.least) - Math.min(a.small.least, a.large.least));
  return [
    "The policy with the most hits, and the share of the gap between LRU and the bound that it closes (–: no policy has 0.05 points",
    "more than LRU, or the gap is less than 0.5 points):",
    "",
    ...header,
    ...best,
    "",
    "Hit ratio less that of LRU, in percentage points: the least and the largest difference on all traces that the policy is run on,",
    "at capacities up to 10 % and from 25 % on; the policy whose largest loss is smallest is the first:",
    "",
    row(["", "1–10 %, least", "largest", "25–50 %, least", "largest"]),
    row(["---", ...Array.from({ length: 4 }, () => "---:")]),
    ...ranges.map(({ title, small, large }) =>
      row([title, ...[small.least, small.most, large.least, large.most].map(points)]),
    ),
  ].join("\n");
}

const isSmall = (share: number) => share <= 0.1;
const lruOf = ({ curves }: Measured) => curves.find(({ policy }) => policy === lru.name)!;

/** The policy, with the number of traces if it was not run on all of them. */
function titleOf(name: string, traces: readonly MeasuredTrace[]): string {
  const run = traces.filter(({ measured }) => measured.curves.some(({ policy }) => policy === name)).length;
  return run < traces.length ? `\`${name}\`, on ${run} of ${traces.length} traces` : `\`${name}\``;
}

/** The least and the largest difference to LRU at some capacities. */
function rangeOf(name: string, traces: readonly MeasuredTrace[], isIncluded: (share: number) => boolean) {
  const differences = traces.flatMap(({ measured }) => {
    const curve = measured.curves.find(({ policy }) => policy === name);
    const base = lruOf(measured).ratio;
    return shares.flatMap((share, i) => (curve && isIncluded(share) ? [curve.ratio[i] - base[i]] : []));
  });
  return { least: Math.min(...differences), most: Math.max(...differences) };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

const cell = ({ ratio, least, most }: Group, i: number) =>
  percent(ratio[i]) + (most[i] - least[i] >= leastBand ? ` (${percent(least[i])}–${percent(most[i])})` : "");

const points = (difference: number) =>
  (100 * difference)
    .toFixed(2)
    .replace(/^-0\.00$/, "0.00")
    .replace("-", "−")
    .replace(/^(?=[1-9]|0\.(?!00))/, "+");

const begin = (name: string) => `<!-- npm run eviction: ${name} -->`;
const end = "<!-- end -->";

/** The document with other lines in the section of a trace. @throws Error if it has no such section */
export function withSection(document: string, name: string, lines: string): string {
  const { from, to } = placeOf(document, name);
  return `${document.slice(0, from)}\n\n${lines}\n\n${document.slice(to)}`;
}

/** The generated lines of a trace. @throws Error if the document has no such section */
export function sectionOf(document: string, name: string): string {
  const { from, to } = placeOf(document, name);
  return document.slice(from, to);
}

function placeOf(document: string, name: string): { from: number; to: number } {
  const from = document.indexOf(begin(name)) + begin(name).length;
  const to = document.indexOf(end, from);
  if (from < begin(name).length || to < 0) throw new Error(`docs/eviction.md has no section ${begin(name)} … ${end}`);
  return { from, to };
}

/** The policies that a generated section names. */
export const policiesNamedIn = (section: string): string[] =>
  [...new Set([...section.matchAll(/`([^`]+)`/g)].map(([, name]) => name))].sort();
