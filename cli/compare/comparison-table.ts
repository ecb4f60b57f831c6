import { counted, grouped } from "../../core/counted.ts";
import type { Comparison, Configuration } from "../../lab/compare/comparison.ts";
import { approximate, ratio } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { blocksOf } from "../../lab/run/capacity.ts";
import { lru } from "../../policies/eviction/index.ts";
import { ratioMeanings } from "../output/summary.ts";
import { aligned, colors, wrapped } from "../output/table.ts";
import { mergedRows } from "./merged-rows.ts";

type Result = Comparison["results"][number];

/** One table: a row for each configuration, a column for each capacity; bounds are below the online policies. */
export function comparisonTable(comparison: Comparison): string {
  const { metric, results, capacities } = comparison;
  const online = results.filter(({ configuration }) => configuration.kind === "online");
  const bounds = results.filter(({ configuration }) => configuration.kind !== "online");
  const value = (run: RunReport) => run.cache.hitRatio[metric];
  const best = capacities.map((_, i) => Math.max(...online.map(({ runs }) => value(runs[i]))));
  const largest = largestBounds(online, comparison);
  const names = nameColumns(results);
  const cells = ({ configuration: { kind }, runs }: Result) =>
    capacities.map((_, i) => {
      const run = runs[kind === "unlimited" ? 0 : i];
      const shown = value(run);
      if (kind !== "online" || shown === 0) return `${ratio(shown)} `;
      if (ratio(shown) === ratio(best[i])) return colors.bold(colors.green(`${ratio(shown)}*`));
      return isWithinNoise(run) ? colors.green(`${ratio(shown)}≈`) : `${ratio(shown)} `;
    });
  const merged = mergedRows(
    online.map((result) => ({ names: names.of(result), cells: cells(result), key: resultsOf(result) })),
  );
  const row = (result: Result) => [...names.of(result), ...cells(result)];
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
      ...bounds.map(row),
      ...(online.length > 0 ? [["bound", ...filler, ...largest.map((bound) => `${ratio(bound)} `)]] : []),
      ...(gaps.length > 0
        ? [
            [],
            [colors.bold("gap closed"), ...filler],
            ...gaps.map(([result, shares]) => [...names.of(result), ...shares]),
          ]
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

const isWithinNoise = ({ uncertainty }: RunReport) => uncertainty !== undefined && uncertainty.behindBest.low <= 0;

/** Equal for configurations with the same results at every capacity. */
const resultsOf = ({ runs }: Result) => JSON.stringify(runs.map(({ cache }) => cache));

/** By capacity: the largest bound of all configurations, which none of them can exceed. */
const largestBounds = (online: readonly Result[], { metric, capacities }: Comparison): readonly number[] =>
  capacities.map((_, i) => Math.max(...online.map(({ runs }) => runs[i].offlineBound!.hitRatio[metric]!)));

/** For each configuration with another eviction policy than lru: the share of the gap that it closes, by capacity. */
function gapRows(online: readonly Result[], { metric, capacities }: Comparison): [Result, string[]][] {
  const others = online.filter(({ configuration }) => configuration.parts.eviction !== lru);
  return others.map((result) => [
    result,
    capacities.map((_, i) => gapText(result.runs[i].offlineBound!.gapClosed[metric])),
  ]);
}

function gapText(share: number | null | undefined): string {
  if (share === null || share === undefined) return "– ";
  const percent = (Math.abs(share) * 100).toFixed(1);
  return `${share < 0 && Number(percent) > 0 ? "−" : ""}${percent} % `;
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

/** A column for each plug-in in which configurations differ; the preset, or else the eviction policy, is the first. */
function nameColumns(results: readonly Result[]) {
  const all: [string, (result: Result) => string][] = [
    ["eviction", ({ configuration }) => configuration.label],
    ["index", ({ configuration }) => configuration.indexLabel],
    ["allocator", ({ configuration }) => configuration.parts.allocator.name],
    ["scheduler", ({ configuration }) => configuration.parts.scheduler.name],
    ["rules", ({ configuration }) => configuration.ruleTexts.join(" ")],
  ];
  const presets = new Set(results.flatMap(({ configuration }) => configuration.parts.preset ?? []));
  const bounds = results.filter(({ configuration }) => configuration.kind === "offline");
  const first: typeof all =
    presets.size === 0
      ? [all[0]]
      : [
          ["policy", ({ configuration }) => presetName(configuration, bounds.length > 1)],
          ["block", ({ runs }) => grouped(runs[0].policy.blockTokens)],
        ];
  const groups =
    presets.size === 0
      ? [results]
      : [...presets].map((preset) => results.filter(({ configuration }) => configuration.parts.preset === preset));
  const isDiffering = (name: (result: Result) => string) => groups.some((group) => new Set(group.map(name)).size > 1);
  const others = all.filter((column) => !first.includes(column) && isDiffering(column[1]));
  const columns = [...first, ...others];
  return {
    headers: columns.map(([header]) => header),
    of: (result: Result) => columns.map(([, name]) => name(result)),
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
  { metric, capacities, results, model }: Comparison,
  best: readonly number[],
  bounds: readonly number[],
): string {
  const shares = capacities.map((_, i) => best[i] / bounds[i]).filter(Number.isFinite);
  const lines = [
    `Values are the hit ratio "${metric}": ${metric === "token" ? "cached prefix tokens ÷ prompt tokens" : ratioMeanings[metric]}. * marks the best online policy.`,
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
