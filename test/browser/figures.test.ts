import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

interface Saved {
  readonly policy: { readonly preset: string | null; readonly eviction: string; readonly blocks: number | null };
  readonly cache: {
    readonly hitRatio: Readonly<Record<string, number>>;
    readonly lookupTokens: number;
    readonly missTokens: Readonly<Record<string, number>>;
  };
  readonly uncertainty?: Readonly<Record<"gainOverLru", { readonly low: number; readonly high: number }>>;
  readonly simulation?: { readonly requestsPerS: number };
  readonly latency: { readonly ttftMs: { readonly p99: number } };
}

const folder = newFolder();
let url = "";
let cached: readonly Saved[] = [];
let timed: readonly Saved[] = [];

async function compare(...args: string[]): Promise<readonly Saved[]> {
  const { code, stdout, stderr } = await ended(
    start(folder, ["compare", "example", ...args, "--json", "--out", "runs"]),
  );
  if (code !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as { runs: Saved[] }).runs;
}

const percent = (ratio: number) => `${(ratio * 100).toFixed(2)}%`;
const figureOf = (page: Page) =>
  page.locator("figure", { has: page.getByRole("combobox", { name: "Figure", exact: true }) });
const workload = (text: string) => `${url}#/compare?workload=${text.replaceAll(" ", "+")}`;
const cacheRuns = () => workload("example, 500 requests, cache");
const timedRuns = () => workload("example, 300 requests, sim");

describe.runIf(hasBrowser)("figures of several runs in a browser", () => {
  beforeAll(async () => {
    cached = await compare("--limit", "500", "--eviction", "lru,lfu,random", "--blocks", "300,1000", "--seed", "1,2");
    timed = await compare(
      ...["--limit", "300", "--target", "sim", "--preset", "vllm,tgi", "--rate", "2,8", "--blocks", "1000"],
      ...["--slo", "ttft=500ms,tpot=50ms"],
    );
    const { dashboard } = await dashboardOver(join(folder, "runs"), { page: await bundlePage() });
    url = dashboard.url;
  }, 120_000);

  test("the heat map has the mean hit ratio of each policy and size, is read by arrow keys, and is in the URL", async () => {
    const page = await visit(cacheRuns());
    const figure = figureOf(page);
    await figure
      .getByRole("combobox", { name: "Figure", exact: true })
      .selectOption({ label: "Heat map: policies × sizes or rates" });
    const svg = figure.locator("svg");
    await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/^Heat map, hit ratio, tokens/);
    expect(page.url()).toContain("figure=heat");
    await page.reload();
    const mean = (eviction: string, blocks: number) => {
      const of = cached.filter(({ policy }) => policy.eviction === eviction && policy.blocks === blocks);
      return of.reduce((sum, { cache }) => sum + cache.hitRatio["token"], 0) / of.length;
    };
    const expected = ["lfu", "lru", "random"].map((name) =>
      [`${name}: 4.8k ${percent(mean(name, 300))}`, `16k ${percent(mean(name, 1000))}`].join(", "),
    );
    await expect.poll(() => svg.getAttribute("aria-label")).toContain(expected.join("; "));
    await svg.focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    await expect
      .poll(() => page.locator("#announcement").textContent())
      .toBe(`lru: cache size, tokens: 16k, ${percent(mean("lru", 1000))}, 2 runs, all equal`);
    expect(await violations(page)).toEqual([]);
  });

  test("throughput, goodput and TTFT by offered rate are three charts with a line for each system", async () => {
    const page = await visit(`${timedRuns()}&figure=rates`);
    const figure = figureOf(page);
    const labels = () =>
      figure.locator("svg").evaluateAll((all) => all.map((each) => each.getAttribute("aria-label")!));
    await expect.poll(async () => (await labels()).length).toBe(3);
    const results = (await labels()).map((label) => label.split(" by ")[0]);
    expect(results).toEqual(["throughput, output tokens/s", "goodput, req/s", "TTFT p99"]);
    for (const label of await labels()) expect(label).toMatch(/tgi: .*vllm: /s);
    await figure.getByLabel("y axis").selectOption({ label: "goodput, req/s" });
    await expect.poll(async () => (await labels()).length).toBe(1);
    expect(page.url()).toMatch(/figure=rates.*y=goodput/);
  });

  test("facets have a chart for each value with equal axes, and are saved as one SVG with their titles", async () => {
    const page = await visit(`${cacheRuns()}&facets=eviction&series=seed`);
    const figure = figureOf(page);
    await expect.poll(() => figure.locator("h3").allTextContents()).toEqual(["lfu", "lru", "random"]);
    const ticks = await figure
      .locator(".panel")
      .evaluateAll((panels) =>
        panels.map((panel) => [...panel.querySelectorAll(".tick text")].map((each) => each.textContent).join()),
      );
    expect(new Set(ticks).size).toBe(1);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      figure.getByRole("button", { name: /save as SVG$/ }).click(),
    ]);
    const svg = readFileSync((await download.path())!, "utf8");
    for (const title of ["lfu", "lru", "random"]) expect(svg).toContain(`>${title}</text>`);
    expect(svg.match(/<svg/g)!.length).toBeGreaterThanOrEqual(4);
  });

  test("gains over LRU have the intervals of the comparison", async () => {
    const page = await visit(`${cacheRuns()}&figure=gain`);
    const svg = figureOf(page).locator("svg");
    await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/^gain over LRU/);
    const of = cached.filter(({ policy }) => policy.eviction === "lfu" && policy.blocks === 1000);
    const [{ low, high }] = of.map(({ uncertainty }) => uncertainty!.gainOverLru);
    const points = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(2)} points`;
    expect(await svg.getAttribute("aria-label")).toContain(
      `${points(low)} to ${points(high)}, 95 % interval of 2 runs`,
    );
  });

  test("misses of all runs are stacked by reason, as in the reports", async () => {
    const page = await visit(`${timedRuns()}&figure=misses`);
    const svg = figureOf(page).locator("svg");
    await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/^Hits and miss reasons/);
    const label = await svg.getAttribute("aria-label");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      figureOf(page)
        .getByRole("button", { name: /save as SVG$/ })
        .click(),
    ]);
    expect(readFileSync((await download.path())!, "utf8")).toContain(">evicted</text>");
    for (const { policy, simulation, cache } of timed) {
      const evicted = percent(cache.missTokens["evicted"] / cache.lookupTokens);
      expect(label).toMatch(new RegExp(`${policy.preset}.* ${simulation!.requestsPerS} req/s[^;]*evicted ${evicted}`));
    }
  });

  test("the Pareto front and its axes fit on a narrow screen", async () => {
    const page = await visit(`${cacheRuns()}&figure=front`, { viewport: { width: 390, height: 844 } });
    const svg = figureOf(page).locator("svg");
    await expect.poll(() => svg.getAttribute("aria-label")).toContain("Pareto front");
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    expect(await figureOf(page).locator(".names text").allTextContents()).toContain("Pareto front");
  });
});
