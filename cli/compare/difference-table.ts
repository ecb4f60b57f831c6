import { counted, grouped } from "../../core/counted.ts";
import { type RuleName, ruleNames } from "../../core/plugins/rules.ts";
import type { DifferenceDocument, PairReport, SideReport } from "../../lab/compare/difference-document.ts";
import type { Input } from "../../lab/input.ts";
import { approximate, percent } from "../../lab/output/numbers.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

type Size = DifferenceDocument["sizes"][number];
type Difference = NonNullable<PairReport["difference"]>;

/** The document as text: a paragraph for each size and pair, and a table of both sides at their divergence. */
export function differenceTable(input: Input, document: DifferenceDocument): string {
  const { configurations, sizes } = document;
  const built = input.files.length === 0 ? " (built-in)" : "";
  const [first, ...others] = configurations.map(({ name }) => name);
  const heading =
    `${colors.bold(input.name)}${built}: ${counted(document.trace.requests, "request")}, ` +
    `${approximate(document.trace.inputTokens)} prompt tokens; every decision compared with those of ${first}`;
  const paragraphs = sizes.flatMap((size) => [
    colors.bold(sizeOf(size)),
    ...size.pairs.flatMap((pair, i) => pairLines(pair, first, others[i], document)),
  ]);
  const naming =
    "Requests and blocks are numbered from 0; content is named by the request and block in which it first occurs.";
  return [wrapped(heading, 0), ...paragraphs, ...(document.identical ? [] : [wrapped(naming, 0)])].join("\n\n");
}

const sizeOf = ({ blocks, share }: Size) =>
  `${counted(blocks ?? 0, "block")}${share === null ? "" : ` (${percent(share)} of the distinct ones)`}`;

function pairLines(pair: PairReport, first: string, second: string, document: DifferenceDocument): string[] {
  const { compared, difference } = pair;
  const { requests, events, hitBlocks, evictedBlocks, refusedRequests } = compared;
  const refused = refusedRequests === 0 ? "" : `, ${counted(refusedRequests, "request")} refused`;
  const amount =
    `${counted(requests, "request")}, ${counted(events, "event")}, ${counted(hitBlocks, "block")} hit, ` +
    `${grouped(evictedBlocks)} evicted${refused}`;
  if (!difference) {
    const same = `${colors.bold(second)}: ${colors.green("identical decisions")}`;
    const text = `${same}${asideText(pair)}${differingRules(document, pair)} (${amount})`;
    return [`  ${wrapped(text, 4, 2)}`];
  }
  const verdict = `${colors.bold(second)}: ${colors.yellow(`diverges from ${first} at request ${difference.request.id}`)}`;
  const before = `identical until then: ${amount}${asideText(pair)}${differingRules(document, pair)}`;
  return [`  ${wrapped(`${verdict}; ${before}`, 4, 2)}`, ...divergenceText(difference, first, second)];
}

const asideLabels = {
  "block-numbers": "block numbers",
  "release-order": "the order in which blocks are released",
  "miss-reasons": "reasons of misses",
} as const;

/** "; block numbers differ from request 17 on" */
function asideText({ asides }: PairReport): string {
  return asides
    .filter(({ requests }) => requests > 0)
    .map(({ aside, firstRequest, requests }) => {
      const verb = aside === "release-order" ? "differs" : "differ";
      return `; ${asideLabels[aside]} ${verb} from request ${firstRequest} on, in ${counted(requests, "request")}`;
    })
    .join("");
}

/** Rules in effect that differ and are not in the configurations' names, such as defaults of two indexes. */
function differingRules({ configurations }: DifferenceDocument, { first, second }: PairReport): string {
  const [one, other] = [configurations[first], configurations[second]];
  const differing = ruleNames.filter(
    (name: RuleName) => one.rules[name] !== other.rules[name] && !one.name.includes(`${name}=`),
  );
  if (differing.length === 0) return "";
  return `; rules differ: ${differing.map((name) => `${name}=${one.rules[name]} and ${other.rules[name]}`).join(", ")}`;
}

const labelWidth = 20;
/** Passed to `wrapped`, so that cells are 26 of its 80 columns wide. */
const indent = 80 - 26;

function divergenceText({ request, context, sides }: Difference, first: string, second: string): string[] {
  const [one, other] = sides;
  const hits = one.hitBlocks === other.hitBlocks ? grouped(one.hitBlocks) : `${one.hitBlocks} and ${other.hitBlocks}`;
  const serving =
    `${counted(request.inputTokens, "prompt token")}, ${counted(request.promptBlocks, "block")}, ` +
    `${hits} of them hits`;
  const before = context.map(({ words }) => `      ${wrapped(words, 8, 6)}`);
  const rows: [label: string, ...cells: [string, string]][] = [
    ["", first, second],
    ["next", ...both(sides, ({ words }) => words)],
    ["blocks", ...both(sides, () => "before → after the request")],
    ...kinds
      .filter(([, kind]) => sides.some(({ before }) => before[kind] !== null))
      .map(([label, kind]): [string, string, string] => [
        `  ${label}`,
        ...both(sides, ({ before, after }) => [before[kind], after[kind]].map(numberText).join(" → ")),
      ]),
    ["cached only here", ...both(sides, onlyText)],
  ];
  return [
    `    ${colors.bold(`request ${request.id}`)}: ${serving}`,
    ...(before.length > 0 ? [[`    ${colors.dim("in both")}`, ...before].join("\n")] : []),
    aligned(rows.flatMap(tableRow), "lll").replace(/^/gm, "  "),
  ];
}

const both = (sides: readonly SideReport[], text: (side: SideReport) => string): [string, string] => [
  text(sides[0]),
  text(sides[1]),
];

const kinds = [
  ["free", "free"],
  ["private", "private"],
  ["cached, referenced", "cachedHeld"],
  ["cached, idle", "cachedIdle"],
] as const satisfies [string, keyof SideReport["before"]][];

const numberText = (count: number | null) => (count === null ? "–" : grouped(count));

function onlyText({ onlyHere }: SideReport): string {
  if (onlyHere.count === 0) return "nothing";
  const named = onlyHere.first.map(({ content, request, block }) => `${content}: request ${request}, block ${block}`);
  return [counted(onlyHere.count, "content"), ...named, ...(onlyHere.count > named.length ? ["…"] : [])].join("\n");
}

/** One row with cells of several lines, as several rows. */
function tableRow([label, ...cells]: readonly [string, string, string]): string[][] {
  const lines = cells.map((cell) =>
    cell.split("\n").flatMap((text) =>
      wrapped(text, indent, indent)
        .split("\n")
        .map((line) => line.trim()),
    ),
  );
  const height = Math.max(...lines.map(({ length }) => length));
  return Array.from({ length: height }, (_, i) => [
    i === 0 ? colors.dim(label.padEnd(labelWidth)) : "",
    ...lines.map((cell) => cell[i] ?? ""),
  ]);
}
