import { counted, grouped } from "../../core/counted.ts";
import type {
  Alternative,
  Explanation,
  RemovalFacts,
  RequestExplanation,
  TokenRun,
} from "../../lab/explain/explanation.ts";
import { duration, percent } from "../../lab/output/numbers.ts";
import { ageText, timeText } from "./ages.ts";
import { aligned, colors, wrapped } from "./table.ts";

/** The costs of evictions, and the explanations of the chosen requests. */
export function explanationTexts(explanation: Explanation, evictedTokens: number): string[] {
  const { requests, evictions } = explanation;
  const areSeveral = requests.some(({ replica }) => replica !== null && replica > 0);
  return [
    ...(evictions.blocks > 0 || evictedTokens > 0 ? [costs(explanation, evictedTokens)] : []),
    ...requests.map((request) => requestText(request, areSeveral)),
  ];
}

const causeTexts: Readonly<Record<keyof Explanation["missedTokens"], string>> = {
  eviction: "the block had been evicted",
  expiry: "its entry had expired",
  operator: "an operator had deleted it or reset the cache",
  request: "a request had dropped it",
  notStored: "computed before, not stored since",
};

function costs({ missedTokens, evictions, worst, ageUnit }: Explanation, evictedTokens: number): string {
  const causes = (Object.entries(missedTokens) as [keyof typeof causeTexts, number][]).filter(
    ([, tokens]) => tokens > 0,
  );
  const rows = causes.map(([cause, tokens]) => [
    grouped(tokens),
    percent(tokens / Math.max(1, evictedTokens)),
    colors.dim(causeTexts[cause]),
  ]);
  const { blocks, rightBlocks, missedBlocks, avoidableTokens } = evictions;
  const share = (part: number, whole: number) => (whole === 0 ? "" : ` (${percent(part / whole)})`);
  const facts =
    `Of ${counted(blocks, "evicted block")}, ${grouped(rightBlocks)}${share(rightBlocks, blocks)} had the furthest next use of all evictable blocks. ` +
    `The next lookup of ${counted(missedBlocks, "block")} missed because of an eviction, at a cost of ${counted(missedTokens.eviction, "token")}; ` +
    `at the evictions of ${grouped(avoidableTokens)}${share(avoidableTokens, missedTokens.eviction)} of these tokens, another evictable block was never used again.`;
  const table = worst.length === 0 ? [] : ["", colors.bold("Costliest evictions"), worstTable(worst, ageUnit)];
  return [
    colors.bold(`Why ${counted(evictedTokens, "token")} missed that had been computed before`),
    ...(rows.length > 0 ? [aligned(rows, "rrl")] : []),
    ...(blocks > 0 ? [`  ${wrapped(facts, 2, 2)}`] : []),
    ...table,
  ].join("\n");
}

function worstTable(worst: Explanation["worst"], ageUnit: Explanation["ageUnit"]): string {
  const head = ["missed", "first by", "evicted for", ...(ageUnit === "ns" ? ["at"] : []), "blocks", "right victim"];
  const rows = worst.map(({ missedTokens, missedBy, request, at, blocks, missedBlocks, instead }) => [
    counted(missedTokens, "token"),
    `${missedBy}`,
    request === null ? "an operator" : `${request}`,
    ...(ageUnit === "ns" ? [timeText(at)] : []),
    `${grouped(missedBlocks)} of ${grouped(blocks)}`,
    instead === null ? "this one" : alternativeText(instead),
  ]);
  return aligned([head.map((name) => colors.dim(name)), ...rows], `rrr${ageUnit === "ns" ? "r" : ""}rl`);
}

function alternativeText({ lastUsedBy, nextUsedBy }: Alternative): string {
  const next = nextUsedBy === null ? "never used again" : `next used by request ${nextUsedBy}`;
  return `of ${lastUsedBy === null ? "an operator's pin" : `request ${lastUsedBy}`}, ${next}`;
}

/** Most runs of tokens that are listed; the JSON document has all. */
const mostRuns = 12;

function requestText(explanation: RequestExplanation, areSeveral: boolean): string {
  const { request, replica, inputTokens, hitTokens, runs, notAdmitted } = explanation;
  if (notAdmitted !== undefined) return colors.bold(notAdmittedText(request, notAdmitted));
  const where = areSeveral ? `, replica ${replica}` : "";
  const title = `Request ${request}${where}: ${grouped(hitTokens)} of ${counted(inputTokens, "prompt token")} hit`;
  const listed = longest(runs);
  const hidden = runs.filter((run) => !listed.includes(run));
  const hiddenTokens = hidden.reduce((sum, { from, to }) => sum + to - from, 0);
  const notes = [
    ...(hidden.length > 0
      ? [`${counted(hidden.length, "shorter run")} of ${counted(hiddenTokens, "token")}: --json`]
      : []),
    ...victimsText(runs),
    divergence(explanation),
  ];
  const hasCost = runs.some(({ recomputeMs }) => recomputeMs !== undefined);
  const head = [
    "tokens",
    "count",
    ...(hasCost ? ["recompute"] : []),
    "why",
    "for request",
    "ago",
    "last used by",
    "idle",
  ];
  const rows = listed.map((run) => [
    `${grouped(run.from)}–${grouped(run.to - 1)}`,
    grouped(run.to - run.from),
    ...(hasCost ? [run.recomputeMs === undefined ? "" : duration(run.recomputeMs)] : []),
    whyText(run),
    ...(run.removal ? removalCells(run.removal) : []),
  ]);
  const isRemoved = listed.some(({ removal }) => removal);
  const shown = isRemoved ? head : head.slice(0, -4);
  return [
    colors.bold(title),
    aligned([shown.map((name) => colors.dim(name)), ...rows], `rr${hasCost ? "r" : ""}lrrrr`),
    ...notes.map((note) => `  ${wrapped(note, 4, 2)}`),
  ].join("\n");
}

const notAdmittedText = (request: number, why: NonNullable<RequestExplanation["notAdmitted"]>) =>
  why === "refused"
    ? `Request ${request} was refused: it has no hits or misses`
    : `Request ${request} was not admitted before the run was interrupted`;

/** The longest runs, in the order of the prompt. */
function longest(runs: readonly TokenRun[]): readonly TokenRun[] {
  if (runs.length <= mostRuns) return runs;
  const byLength = [...runs].sort((a, b) => b.to - b.from - (a.to - a.from)).slice(0, mostRuns);
  return runs.filter((run) => byLength.includes(run));
}

const removalNames = { eviction: "evicted", expiry: "expired", operator: "deleted", request: "dropped" } as const;

function whyText({ reason, removal }: TokenRun): string {
  if (reason === "hit") return colors.green("hit");
  if (reason !== "evicted") return reason;
  return removal ? removalNames[removal.cause] : "not stored";
}

const removalCells = ({ cause, request, ago, lastUsedBy, idle }: RemovalFacts): string[] => [
  request !== null ? `${request}` : cause === "expiry" ? "" : "an operator",
  ageText(ago),
  lastUsedBy === null ? "a pin" : `${lastUsedBy}`,
  ageText(idle),
];

/** The blocks that would have been right instead of the evicted ones. */
function victimsText(runs: readonly TokenRun[]): string[] {
  const tokens = new Map<string, number>();
  for (const { from, to, removal } of runs) {
    if (removal?.instead === undefined) continue;
    const text = removal.instead === null ? "the evicted blocks" : `a block ${alternativeText(removal.instead)}`;
    tokens.set(text, (tokens.get(text) ?? 0) + to - from);
  }
  const all = [...tokens].sort(([, a], [, b]) => b - a);
  if (all.length === 0) return [];
  const named = all.slice(0, 3).map(([text, count]) => `${text} (${counted(count, "token")})`);
  return [`Right victim: ${named.join("; ")}${all.length > 3 ? "; others" : ""}.`];
}

/** Where the prompt diverges from earlier ones. */
function divergence({ inputTokens, sharedTokens, sharedWith }: RequestExplanation): string {
  if (sharedWith === null) return "No earlier request begins with the same block.";
  const shared = `Longest prefix shared with an earlier request: ${counted(sharedTokens, "token")}, request ${sharedWith}`;
  return sharedTokens === inputTokens ? `${shared}; the whole prompt.` : `${shared}; the prompts diverge there.`;
}
