import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { replayTrace } from "../../core/replica/replay.ts";
import { BlockKeys } from "../../core/trace/content.ts";
import { readTrace } from "../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { policiesNamedIn, sectionOf, summary, tables, withSection } from "../../scripts/eviction/document.ts";
import { families } from "../../scripts/eviction/families.ts";
import { figure } from "../../scripts/eviction/figure.ts";
import { type Curve, gapClosed, grouped, type Measured, measure, shares } from "../../scripts/eviction/measure.ts";
import { figureTraces } from "../../scripts/eviction/traces.ts";
import { chatSource } from "../../traces/generators/chat.ts";

const online = evictionRegistry.all.filter(({ offline, unlimited }) => !offline && !unlimited).map(({ name }) => name);
const document = readFileSync("docs/eviction.md", "utf8");

const whole = await readTrace(chatSource());
const start = await readTrace(chatSource(), 250);

interface Choice {
  readonly index?: string;
  readonly order?: "reverse" | "forward";
  readonly seed?: number;
}

/** The block hit ratio of one replay with blocks of 16 tokens. */
function hitRatio(trace: typeof whole, eviction: string, blocks: number, { index, order, seed }: Choice = {}): number {
  const { counters } = replayTrace(trace, {
    index: indexRegistry.get(index ?? "hash-table"),
    eviction: evictionRegistry.get(eviction),
    allocator: allocatorRegistry.get("block"),
    scheduler: schedulerRegistry.get("naive"),
    blockTokens: 16,
    blocks,
    rules: { "free-order": order ?? "reverse" },
    seed: seed ?? 1,
  }).cache;
  return counters.hitBlocks / counters.lookupBlocks;
}

const measured = measure(
  start,
  16,
  ["lru", "mru", "random", "belady", "lru-deepest", "kvflow"].map((name) => evictionRegistry.get(name)),
);
const curveOf = (policy: string) => measured.curves.find((curve) => curve.policy === policy)!;

test("capacities are shares of the distinct blocks", () => {
  const distinct = new Set(new BlockKeys({ unitTokens: 16, blockTokens: 16 }).of(start).keys).size;
  expect(measured.distinctBlocks).toBe(distinct);
  expect(measured.capacities).toEqual(shares.map((share) => Math.round(share * distinct)));
});

test("a curve has the hit ratios of replays, and its band both orders of a request's blocks", () => {
  for (const policy of ["lru", "mru"]) {
    const { ratio, least, most, inTree } = curveOf(policy);
    measured.capacities.forEach((blocks, i) => {
      const reverse = hitRatio(start, policy, blocks);
      const forward = hitRatio(start, policy, blocks, { order: "forward" });
      expect([ratio[i], least[i], most[i]]).toEqual([reverse, Math.min(reverse, forward), Math.max(reverse, forward)]);
      expect(inTree[i]).toBe(hitRatio(start, policy, blocks, { index: "radix-tree" }));
    });
  }
  expect(curveOf("mru").least).not.toEqual(curveOf("mru").most);
});

test("a policy that draws random numbers has the mean of five seeds, and a band over seeds and orders", () => {
  const { ratio, least, most } = curveOf("random");
  const blocks = measured.capacities[3];
  const of = (order: "reverse" | "forward") =>
    [1, 2, 3, 4, 5].map((seed) => hitRatio(start, "random", blocks, { order, seed }));
  const all = [...of("reverse"), ...of("forward")];
  expect(ratio[3]).toBeCloseTo(of("reverse").reduce((total, value) => total + value) / 5, 12);
  expect([least[3], most[3]]).toEqual([Math.min(...all), Math.max(...all)]);
});

test("the bound is the hit ratio of belady, and closes the whole gap", () => {
  const { bound, unlimited } = measured;
  curveOf("belady").ratio.forEach((ratio, i) => {
    expect(bound[i]).toBeCloseTo(ratio, 12);
  });
  const sharesOf = (ratios: readonly number[]) => [
    ...new Set(gapClosed(measured, ratios).filter((share) => share !== undefined)),
  ];
  expect(sharesOf(bound)).toEqual([1]);
  expect(sharesOf(curveOf("lru").ratio)).toEqual([0]);
  expect(unlimited).toBe(hitRatio(start, "unbounded", measured.distinctBlocks));
});

test("a policy whose signals the trace does not have is not run", () => {
  expect(measured.withoutSignal).toEqual(["kvflow"]);
  expect(curveOf("kvflow")).toBeUndefined();
});

test("policies with equal hit ratios in every run are one group, with lru as its first", () => {
  const curve = (policy: string, ratio: number): Curve => ({
    policy,
    ...{ ratio: [ratio], least: [ratio], most: [ratio], inTree: [ratio] },
  });
  const groups = grouped([curve("clock", 1), curve("fifo", 0), curve("lru", 1)]);
  expect(groups.map(({ policies }) => policies)).toEqual([["lru", "clock"], ["fifo"]]);
});

test("the figure has a line or a cell for each policy, and numbers only", () => {
  const svg = figure("a trace", measured);
  for (const name of ["lru", "mru", "random", "bound"]) expect(svg).toContain(`>${name}`);
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
});

test("a section of the document is replaced, and the lines around it stay", () => {
  const before = "# A\n\n<!-- npm run eviction: mooncake -->\nold\n<!-- end -->\n\nB\n";
  const lines = tables("a trace", "a.svg", measured);
  const after = withSection(before, "mooncake", lines);
  expect(after).toBe(`# A\n\n<!-- npm run eviction: mooncake -->\n\n${lines}\n\n<!-- end -->\n\nB\n`);
  expect(withSection(after, "mooncake", lines)).toBe(after);
  expect(policiesNamedIn(lines)).toEqual(["belady", "kvflow", "lru", "lru-deepest", "mru", "random"]);
  expect(() => withSection(before, "weka", lines)).toThrow("docs/eviction.md has no section");
});

test("a band that is narrow is not in the table, a wide one is", () => {
  const flat = (value: number) => shares.map(() => value);
  const curve = (policy: string, most: number): Curve => ({
    policy,
    ...{ ratio: flat(0.2), least: flat(0.2), most: flat(most), inTree: flat(0.1) },
  });
  const one: Measured = { ...measured, curves: [curve("lru", 0.204), curve("mru", 0.21)] };
  const lines = tables("a trace", "a.svg", one).split("\n");
  expect(lines).toContain(`| \`lru\` | ${shares.map(() => "20.00").join(" | ")} |`);
  expect(lines).toContain(`| \`mru\` | ${shares.map(() => "20.00 (20.00–21.00)").join(" | ")} |`);
  expect(lines).toContain(`| \`mru\` | ${shares.map(() => "−10.00").join(" | ")} |`);
});

test("the summary has the best policy of each capacity, and the differences to LRU", () => {
  const curve = (policy: string, ratio: readonly number[]): Curve => ({
    policy,
    ...{ ratio, least: ratio, most: ratio, inTree: ratio },
  });
  const one: Measured = {
    ...measured,
    bound: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    curves: [
      curve("lru", [0.1, 0.2, 0.3, 0.4, 0.4, 0.499]),
      curve("arc", [0.2, 0.2, 0.3, 0.35, 0.45, 0.499]),
      curve("belady", [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
    ],
  };
  const lines = summary([{ title: "a trace", measured: one }]).split("\n");
  expect(lines).toContain("| a trace | `arc` 25 % | – | – | – | `arc` 50 % | – |");
  expect(lines).toContain("| `arc` | −5.00 | +10.00 | 0.00 | +5.00 |");
  expect(lines.join()).not.toContain("belady");
  const withoutArc = { ...one, curves: one.curves.filter(({ policy }) => policy !== "arc") };
  const two = summary([
    { title: "a trace", measured: one },
    { title: "another", measured: withoutArc },
  ]);
  expect(two).toContain("| `arc`, on 1 of 2 traces | −5.00 | +10.00 | 0.00 | +5.00 |");
  expect(two).toContain("| `lru` | 0.00 | 0.00 | 0.00 | 0.00 |");
});

test("every policy belongs to one family of the figures (scripts/eviction/families.ts)", () => {
  expect(families.flatMap(({ policies }) => policies).sort()).toEqual(online);
});

for (const { name } of figureTraces)
  test(`docs/eviction.md has every policy in the tables of ${name}; npm run eviction writes them`, () => {
    expect(policiesNamedIn(sectionOf(document, name))).toEqual([...online, "belady"].sort());
  });

test("docs/eviction.md has the example's hit ratios as they are now; npm run eviction writes them", () => {
  const section = sectionOf(document, "example");
  const blocks = 5433;
  expect(section).toContain("5,433");
  for (const policy of ["lru", "s3-fifo", "lfu-lifetime"]) {
    const row = section.split("\n").find((line) => line.startsWith("|") && line.includes(`\`${policy}\``))!;
    expect(row.split("|")[5].trim()).toBe((100 * hitRatio(whole, policy, blocks)).toFixed(2));
  }
});
