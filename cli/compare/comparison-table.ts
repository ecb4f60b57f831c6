import { counted, grouped } from "../../core/counted.ts";
import { rangeOf } from "../../lab/compare/band-document.ts";
import { commonRules } from "../../lab/compare/bands.ts";
import type { BandAxis, Comparison, Configuration } from "../../lab/compare/comparison.ts";
import type { Metric } from "../../lab/output/hit-ratios.ts";
import { approximate, ratio } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { blocksOf } from "../../lab/run/capacity.ts";
import { lru } from "../../policies/eviction/index.ts";
import { ratioMeanings } from "../output/summary.ts";
import { aligned, colors, wrapped } from "../output/table.ts";
import { mergedRows } from "./merged-rows.ts";

type Result = Comparison["results"][number];

/** A row: a configuration, or several that differ only in the order of ties or in the seed. */
interface Row {
  readonly results: readonly Result[];
  readonly over: readonly BandAxis[];
}

/** One table: a row for each configuration or band, a column for each capacity; bounds are below the online policies. */
export function comparisonTable(comparison: Comparison): string {
  const { metric, results, capacities, groups } = comparison;
  const rows = groups.map(({ members, over }): Row => ({ results: members.map((i) => results[i]), over }));
  const online = rows.filter((row) => kindOf(row) === "online");
  const bounds = rows.filter((row) => kindOf(row) !== "online");
  const best = capacities.map((_, i) => Math.max(...online.map((row) => valuesOf(row, i, metric).high)));
  const largest = largestBounds(
    online.flatMap((row) => row.results),
    comparison,
  );
  const names = nameColumns(rows);
  const withinNoise = rowsWithinNoise(comparison);
  const cells = (row: Row) =>
    capacities.map((_, i) => {
      const kind = kindOf(row);
      const { low, high } = valuesOf(row, kind === "unlimited" ? 0 : i, metric);
      const text = ratio(low) === ratio(high) ? ratio(low) : `${ratio(low)}–${ratio(high)}`;
      if (kind !== "online" || high === 0) return `${text} `;
      if (ratio(high) === ratio(best[i])) return colors.bold(colors.green(`${text}*`));
      return withinNoise(row, i) ? colors.green(`${text}≈`) : `${text} `;
    });
  const merged = mergedRows(online.map((row) => ({ names: names.of(row), cells: cells(row), key: resultsOf(row) })));
  const filler = names.headers.slice(1).map(() => "");
  const gaps = gapRows(
    merged.first.map((at) => online[at]),
    comparison,
  );
  const table = aligned(
    [
      ...header(comparison, names.headers),
      ...merged.rows,
      [],
      ...bounds.map((row) => [...names.of(row), ...cells(row)]),
      ...(online.length > 0 ? [["bound", ...filler, ...largest.map((bound) => `${ratio(bound)} `)]] : []),
      ...(gaps.length > 0
        ? [[], [colors.bold("gap closed"), ...filler], ...gaps.map(([row, shares]) => [...names.of(row), ...shares])]
        : []),
      ...(online.length > 0
        ? [[], ["best/bound", ...filler, ...best.map((b, i) => `${shareOf(b, largest[i])} `)]]
        : []),
    ],
    "l".repeat(names.headers.length) + "r".repeat(capacities.length),
  );
  return [
    heading(comparison),
    table,
    ...(merged.equal.length > 0 ? [merged.equal.map((text) => wrapped(text, 2)).join("\n")] : []),
    meaning(comparison, best, largest),
    ...nothingEvicted(comparison),
    ...rulesNotApplied(comparison),
    ...largeBlocks(comparison),
    ...refusals(comparison),
  ].join("\n\n");
}

const kindOf = ({ results }: Row) => results[0].configuration.kind;

const valuesOf = ({ results }: Row, i: number, metric: Metric) =>
  rangeOf(results.map(({ runs }) => runs[i].cache.hitRatio[metric]));

const isWithinNoise = ({ uncertainty }: RunReport) => uncertainty !== undefined && uncertainty.behindBest.low <= 0;

/** Whether a row may be as good as the best one: the interval of a run's difference contains 0, or that of the band. */
function rowsWithinNoise({ results, bands }: Comparison): (row: Row, i: number) => boolean {
  const runs = results.flatMap((result) => result.runs);
  const ofRun = new Map(bands.flatMap((band) => band.runs.map((run) => [runs[run], band])));
  return ({ results: members }, i) =>
    members.some(({ runs }) => isWithinNoise(runs[i]) || (ofRun.get(runs[i])?.behindBest?.low ?? 1) <= 0);
}

/** Equal for rows with the same results at every capacity. */
const resultsOf = ({ results }: Row) => JSON.stringify(results.map(({ runs }) => runs.map(({ cache }) => cache)));

/** By capacity: the largest bound of all configurations, which none of them can exceed. */
const largestBounds = (online: readonly Result[], { metric, capacities }: Comparison): readonly number[] =>
  capacities.map((_, i) => Math.max(...online.map(({ runs }) => runs[i].offlineBound!.hitRatio[metric]!)));

/** For each row with another eviction policy than lru: the share of the gap that it closes, by capacity. */
function gapRows(online: readonly Row[], { metric, capacities }: Comparison): [Row, string[]][] {
  const others = online.filter(({ results: [{ configuration }] }) => configuration.parts.eviction !== lru);
  return others.map((row) => [
    row,
    capacities.map((_, i) => {
      const shares = row.results.map(({ runs }) => runs[i].offlineBound!.gapClosed[metric]);
      const closed = shares.filter((share) => share !== null && share !== undefined);
      if (closed.length === 0) return "– ";
      const [low, high] = [Math.min(...closed), Math.max(...closed)].map(gapText);
      return low === high ? `${low} % ` : `${low} to ${high} % `;
    }),
  ]);
}

function gapText(share: number): string {
  const percent = (Math.abs(share) * 100).toFixed(1);
  return `${share < 0 && Number(percent) > 0 ? "−" : ""}${percent}`;
}

function heading({ input, distinctBlocks, blockTokens, results }: Comparison): string {
  const built = input.files.length === 0 ? " (built-in)" : "";
  const { requests, inputTokens } = results[0].runs[0].trace;
  return wrapped(
    `${colors.bold(input.name)}${built}: ${counted(requests, "request")}, ${approximate(inputTokens)} prompt tokens, ` +
      `${counted(distinctBlocks, "distinct block")} of ${counted(blockTokens, "token")}`,
    0,
  );
}

/** The capacities that were given as shares; all in blocks, or in tokens where block sizes differ; all in GiB. */
function header(
  { capacities, distinctBlocks, blockTokens, results, model }: Comparison,
  names: readonly string[],
): string[][] {
  const shares = capacities.map((capacity) =>
    capacity !== "unlimited" && "share" in capacity ? `${Number((capacity.share * 100).toPrecision(6))} % ` : "",
  );
  const mixed = results.some(({ runs }) => runs[0].policy.blockTokens !== blockTokens);
  const shown = capacities.map((capacity) => blocksOf(capacity, distinctBlocks) ?? 0);
  const blocks = shown.map((count) => `${grouped(mixed ? count * blockTokens : count)} `);
  const gigabytes = shown.map((count) => `${gibibytes(count * blockTokens * model.tokenBytes)} `);
  const filler = names.slice(1).map(() => "");
  return [
    [...names, ...shares].map((cell) => colors.bold(cell)),
    [mixed ? "tokens" : "blocks", ...filler, ...blocks].map((cell) => colors.dim(cell)),
    ["GiB", ...filler, ...gigabytes].map((cell) => colors.dim(cell)),
  ];
}

/** Three significant digits. */
const gibibytes = (bytes: number) => {
  const size = bytes / 2 ** 30;
  return size >= 100 ? grouped(Math.round(size)) : size.toPrecision(3);
};

/** A column for each plug-in in which rows differ; the preset, or else the eviction policy, is the first. */
function nameColumns(rows: readonly Row[]) {
  const named = (of: (configuration: Configuration) => string) => (row: Row) => of(row.results[0].configuration);
  const all: [string, (row: Row) => string][] = [
    ["eviction", named(({ label }) => label)],
    ["index", named(({ indexLabel }) => indexLabel)],
    ["allocator", named(({ parts }) => parts.allocator.name)],
    ["scheduler", named(({ parts }) => parts.scheduler.name)],
    [
      "rules",
      ({ results: [{ configuration }], over }) => commonRules({ rules: configuration.ruleTexts }, over).join(" "),
    ],
  ];
  const presetOf = ({ results: [{ configuration }] }: Row) => configuration.parts.preset;
  const presets = new Set(rows.flatMap((row) => presetOf(row) ?? []));
  const bounds = rows.filter((row) => kindOf(row) === "offline");
  const first: typeof all =
    presets.size === 0
      ? [all[0]]
      : [
          ["policy", named((configuration) => presetName(configuration, bounds.length > 1))],
          ["block", ({ results: [{ runs }] }) => grouped(runs[0].policy.blockTokens)],
        ];
  const groups =
    presets.size === 0 ? [rows] : [...presets].map((preset) => rows.filter((row) => presetOf(row) === preset));
  const isDiffering = (name: (row: Row) => string) => groups.some((group) => new Set(group.map(name)).size > 1);
  const others = all.filter((column) => !first.includes(column) && isDiffering(column[1]));
  const columns = [...first, ...others];
  return {
    headers: columns.map(([header]) => header),
    of: (row: Row) => columns.map(([, name]) => name(row)),
  };
}

/** A bound has no preset; several bounds are distinguished by whether outputs are cached. */
function presetName({ parts, label, kind, ruleTexts }: Configuration, several: boolean): string {
  if (parts.preset) return kind === "online" ? parts.preset.name : `${parts.preset.name} ${label}`;
  if (!several || kind === "unlimited") return label;
  return `${label}, ${ruleTexts.length > 0 ? "outputs cached" : "prompts only"}`;
}

const shareOf = (part: number, whole: number) => (whole === 0 ? "–" : `${((part / whole) * 100).toFixed(1)} %`);

function meaning(
  { metric, capacities, results, groups, model }: Comparison,
  best: readonly number[],
  bounds: readonly number[],
): string {
  const shares = capacities.map((_, i) => best[i] / bounds[i]).filter(Number.isFinite);
  const lines = [
    `Values are the hit ratio "${metric}": ${metric === "token" ? "cached prefix tokens ÷ prompt tokens" : ratioMeanings[metric]}. * marks the best online policy.`,
    ...bandMeaning(results, groups),
    ...noise(results),
  ];
  lines.push(
    "Bounds: belady reads the future (the offline optimum in whole blocks); unbounded is an unlimited cache" +
      (bounds.some(Number.isFinite) ? "; bound is proven: no eviction policy exceeds it." : "."),
  );
  if (results.some(({ configuration: { kind, parts } }) => kind === "online" && parts.eviction !== lru))
    lines.push(
      "Gap closed: (policy − lru) ÷ (bound − lru), with lru and the bound of the same combination; – where lru reaches the bound.",
    );
  lines.push(`GiB: keys and values of ${model.name}; --model chooses another.`);
  if (shares.length > 0) {
    const [least, most] = [Math.min(...shares), Math.max(...shares)].map((share) => `${(share * 100).toFixed(0)} %`);
    lines.push(`The best online policy reaches ${least === most ? least : `${least} to ${most}`} of the bound.`);
  }
  return lines.map((line) => wrapped(line, 0)).join("\n");
}

/** Over what the values of a row are a band. */
function bandMeaning(results: readonly Result[], groups: Comparison["groups"]): string[] {
  const over = new Set(groups.flatMap((group) => group.over));
  if (over.size === 0) return [];
  const texts = [
    ...(over.has("free-order") ? ["the orders in which the blocks of one request are evicted (free-order)"] : []),
    ...(over.has("seed")
      ? [counted(new Set(results.map(({ configuration }) => configuration.seed)).size, "seed")]
      : []),
  ];
  return [`low–high: the lowest and the highest hit ratio over ${texts.join(" and ")}.`];
}

/** How the policies that may be as good as the best one were found. */
function noise(results: readonly Result[]): string[] {
  const found = results.flatMap(({ runs }) => runs.flatMap(({ uncertainty }) => uncertainty ?? []))[0];
  if (!found) return [];
  const from = found.sessionsInferred ? ", inferred from prompts that extend an earlier one" : "";
  return [
    `≈ marks policies within noise of the best one: the 95 % interval of the difference contains 0 (paired bootstrap over ` +
      `${counted(found.sessions, "session")}${from}).`,
  ];
}

/** Capacities at which no run evicted a block. */
function nothingEvicted({ results, capacities, distinctBlocks }: Comparison): string[] {
  const online = results.filter(({ configuration }) => configuration.kind === "online");
  const sizes = capacities.filter(
    (_, i) => online.length > 0 && online.every(({ runs }) => runs[i].cache.evictedBlocks === 0),
  );
  if (sizes.length === 0) return [];
  const blocks = sizes.map((size) => grouped(blocksOf(size, distinctBlocks) ?? 0)).join(", ");
  return [colors.yellow(wrapped(`With ${blocks} blocks nothing was evicted, so policies cannot differ there.`, 0))];
}

/** Presets whose block is larger than the capacity: their cache has one block. */
function largeBlocks({ results, capacities, distinctBlocks, blockTokens }: Comparison): string[] {
  const lines = capacities.flatMap((capacity, i) => {
    const tokens = (blocksOf(capacity, distinctBlocks) ?? 0) * blockTokens;
    const larger = results.flatMap(({ configuration: { parts }, runs }) =>
      parts.preset && runs[i] && runs[i].policy.blockTokens > tokens ? parts.preset.name : [],
    );
    const names = [...new Set(larger)].join(", ");
    return names === "" ? [] : [`At ${counted(tokens, "token")} the cache of ${names} is larger: one whole block.`];
  });
  return lines.map((line) => colors.yellow(wrapped(line, 0)));
}

/** Rules of presets that are not in effect, because another plug-in was chosen. */
function rulesNotApplied({ results }: Comparison): string[] {
  const lines = results.flatMap(({ configuration: { parts, ruleTexts } }) => {
    const chosen = ruleTexts.map((text) => text.split("=")[0]);
    const others = parts.leftOut.filter((text) => !chosen.includes(text.split("=")[0]));
    return others.length === 0
      ? []
      : [`${parts.preset!.name} with ${parts.index.name} does not apply ${others.join(", ")}.`];
  });
  return [...new Set(lines)].map((line) => colors.yellow(wrapped(line, 0)));
}

/** Requests that reserve more tokens than the capacity. */
function refusals({ results, capacities, distinctBlocks, blockTokens }: Comparison): string[] {
  const online = results.filter(({ configuration }) => configuration.kind !== "unlimited");
  const { lookups } = results[0].runs[0].cache;
  const counts = capacities.flatMap((capacity, i) => {
    const refused = online.map(({ runs }) => runs[i].cache.refusedRequests);
    const [least, most] = [Math.min(...refused), Math.max(...refused)];
    if (most === 0) return [];
    const tokens = (blocksOf(capacity, distinctBlocks) ?? 0) * blockTokens;
    return [
      `${least === most ? "" : `${grouped(least)} to `}${grouped(most)} need more than ${grouped(tokens)} tokens`,
    ];
  });
  if (counts.length === 0) return [];
  const text = `Of ${counted(lookups, "request")}, ${counts.join(", ")}: they are refused there and count as lookups without a hit.`;
  return [colors.yellow(wrapped(text, 0))];
}
