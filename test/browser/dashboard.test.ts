import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

interface Report {
  readonly policy: { readonly eviction: string; readonly blocks: number | null; readonly blockTokens: number };
  readonly cache: {
    readonly hitRatio: Record<string, number>;
    readonly hitTokens: number;
    readonly lookupTokens: number;
    readonly evictedBlocks: number;
  };
  readonly offlineBound: { readonly gapClosed: Record<string, number> };
  readonly latency: Record<string, { readonly p50: number; readonly p99: number }>;
  readonly throughput: { readonly requestsPerS: number };
  readonly command: string;
}

const percent = (ratio: number) => `${(ratio * 100).toFixed(2)}%`;
const folder = newFolder();
const runs = join(folder, "runs");
const reportOf = (id: string): Report => JSON.parse(readFileSync(join(runs, id, "run.json"), "utf8"));
let url = "";

async function kvlab(...args: string[]): Promise<void> {
  const { code, stderr } = await ended(start(folder, args));
  if (code !== 0) throw new Error(stderr);
}

/** The run ids in the order of the table. */
const listed = (page: Page) => page.locator("tbody .id").allTextContents();

/** All texts that the arrow keys read in a figure. */
async function readAll(page: Page, figure: string): Promise<Set<string>> {
  const chart = page.locator("figure", { hasText: figure }).locator("svg");
  const announcement = page.locator("#announcement");
  await chart.focus();
  const all = new Set<string>();
  for (let line = 0; line < 4; line++) {
    await chart.press("ArrowDown");
    for (let point = 0; point < 4; point++) await chart.press("ArrowLeft");
    for (let point = 0; point < 4; point++) {
      all.add((await announcement.textContent())!.replace(/\n/g, " "));
      await chart.press("ArrowRight");
    }
  }
  return all;
}

describe.runIf(hasBrowser)("the dashboard in a browser", () => {
  beforeAll(async () => {
    const example = ["example", "--limit", "800"];
    await Promise.all([
      kvlab("compare", ...example, "--eviction", "lru,fifo", "--blocks", "200,1000,3000", "--out", "runs"),
      kvlab("replay", ...example, "--target", "sim", "--preset", "vllm", "--blocks", "1000", "--out", "runs-sim/vllm"),
      kvlab(
        "replay",
        ...example,
        "--target",
        "sim",
        "--preset",
        "sglang",
        "--blocks",
        "1000",
        "--out",
        "runs-sim/sglang",
      ),
    ]);
    for (const name of ["vllm", "sglang"]) renameSync(join(folder, "runs-sim", name), join(runs, name));
    mkdirSync(join(runs, "half"));
    writeFileSync(join(runs, "half", "run.json"), "{");
    const { dashboard } = await dashboardOver(runs, { page: await bundlePage() });
    url = dashboard.url;
  }, 120_000);

  test("all runs are listed with the metrics of their reports, and folders that are not runs are marked incomplete", async () => {
    const page = await visit(`${url}#/runs`);
    await expect.poll(() => listed(page)).toHaveLength(13);
    for (const row of await page.locator("tbody tr:not(.broken)").all()) {
      const { cache } = reportOf((await row.locator(".id").textContent())!);
      expect(await row.textContent()).toContain(percent(cache.hitRatio["token"]));
    }
    expect(await page.locator("tr.broken").textContent()).toContain("halfincomplete: ");
  });

  test("runs can be searched, sorted and selected by keyboard, and a reload restores the state", async () => {
    const page = await visit(`${url}#/runs`);
    await page.getByLabel("Search").fill("lru cache");
    await expect.poll(() => listed(page)).toHaveLength(3);
    await page.getByRole("button", { name: "Hit ratio" }).press("Enter");
    const ratios = async () => (await listed(page)).map((id) => reportOf(id).cache.hitRatio["token"]);
    const descending = await ratios();
    expect(descending).toEqual([...descending].sort((a, b) => b - a));
    await page.getByRole("checkbox").first().focus();
    await page.keyboard.press("Space");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Space");
    const link = page.getByRole("link", { name: "Compare 2" });
    await link.waitFor();
    await page.reload();
    await link.waitFor();
    expect(await ratios()).toEqual(descending);
    await link.click();
    await page.getByText("2 selected runs").waitFor();
  });

  test("runs are found by any setting, and by name=value", async () => {
    const page = await visit(`${url}#/runs`);
    for (const [search, found] of [
      ["gpu=h200 preset=sgl", ["sglang"]],
      ["llama-3.1-8b vllm", ["vllm"]],
      ["seed=2", []],
    ] as const) {
      await page.getByLabel("Search").fill(search);
      await expect.poll(() => listed(page)).toEqual(found);
    }
  });

  test("a run that is saved while the page is open appears", async () => {
    const page = await visit(`${url}#/runs?q=mru`);
    await page.getByText("0 of 13 runs").waitFor();
    await kvlab("replay", "example", "--limit", "300", "--eviction", "mru", "--blocks", "100", "--out", "runs/mru-new");
    await page.getByRole("link", { name: "mru-new" }).waitFor();
    rmSync(join(runs, "mru-new"), { recursive: true });
    await page.getByText("0 of 13 runs").waitFor();
  });

  test("saving or removing a run updates the curves and keeps the user's choices", async () => {
    const page = await visit(`${url}#/compare?trace=example&base=vllm`);
    const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
    const metric = page.getByLabel("Hit ratio definition");
    await metric.selectOption("fullBlock");
    await figure.getByText("offline optimum", { exact: true }).waitFor();
    await metric.focus();
    await page.evaluate("scrollTo(0, 300); window.isTheSame = true");
    await kvlab("replay", "example", "--limit", "800", "--eviction", "mru", "--blocks", "200", "--out", "runs/mru-new");
    const curve = figure.locator(".names text", { hasText: "mru" });
    await curve.waitFor();
    await page.getByRole("region", { name: "Differences" }).getByRole("link", { name: /mru/ }).waitFor();
    rmSync(join(runs, "mru-new"), { recursive: true });
    await curve.waitFor({ state: "detached" });
    expect(await page.evaluate("[scrollY, window.isTheSame, document.activeElement.value]")).toEqual([
      ...[300, true, "fullBlock"],
    ]);
    expect(await page.getByRole("combobox", { name: "Baseline" }).inputValue()).toBe("vllm");
  });

  test("removing the shown run shows an alert, and saving it again shows the run", async () => {
    await kvlab("replay", "example", "--limit", "100", "--blocks", "100", "--out", "runs-sim/shown");
    renameSync(join(folder, "runs-sim/shown"), join(runs, "shown"));
    const page = await visit(`${url}#/run?id=shown`);
    const requests = page.locator(".tile", { hasText: "Requests" }).locator("dd");
    await requests.getByText("100").waitFor();
    await page.getByRole("button", { name: "Copy" }).focus();
    rmSync(join(runs, "shown"), { recursive: true });
    const alert = page.getByRole("alert").filter({ hasText: "This run no longer exists" });
    await alert.waitFor();
    await kvlab("replay", "example", "--limit", "150", "--blocks", "100", "--out", "runs/shown");
    await requests.getByText("150").waitFor();
    await alert.waitFor({ state: "hidden" });
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Copy");
    rmSync(join(runs, "shown"), { recursive: true });
  });

  test("the curves of hit ratio by cache size have the values of the reports, for each definition", async () => {
    const page = await visit(`${url}#/runs`);
    await page.getByLabel("Search").fill("hash-table cache");
    await page.getByRole("button", { name: "Select all" }).click();
    const ids = await listed(page);
    await page.getByRole("link", { name: "Compare 10" }).click();
    const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
    await figure.getByText("offline optimum", { exact: true }).waitFor();
    for (const metric of ["token", "requestMeanBlock"]) {
      await page.getByLabel("Hit ratio definition").selectOption(metric);
      const expected = ids.map((id) => {
        const { policy, cache } = reportOf(id);
        const { eviction, blocks, blockTokens } = policy;
        const label = blocks === null ? "unlimited cache" : eviction === "belady" ? "offline optimum" : eviction;
        const number = (value: number) => value.toLocaleString("en");
        const size = blocks === null ? "unlimited" : `${number(blocks * blockTokens)} tokens, ${number(blocks)} blocks`;
        return `${label}: ${percent(cache.hitRatio[metric])} ${size}`;
      });
      expect([...(await readAll(page, "Hit ratio by cache size"))].sort()).toEqual(expected.sort());
    }
    await page.reload();
    expect(await page.getByLabel("Hit ratio definition").inputValue()).toBe("requestMeanBlock");
  });

  test("differences are computed from the reports against the selected baseline", async () => {
    const page = await visit(`${url}#/compare?runs=vllm,sglang`);
    await page.getByRole("combobox", { name: "Baseline" }).selectOption("sglang");
    const [vllm, sglang] = [reportOf("vllm"), reportOf("sglang")];
    const row = page.getByRole("region", { name: "Differences" }).locator("tr", { hasText: "vllm" });
    const points = (vllm.cache.hitRatio["token"] - sglang.cache.hitRatio["token"]) * 100;
    const share = vllm.latency["ttftMs"].p50 / sglang.latency["ttftMs"].p50 - 1;
    const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
    const text = await row.textContent();
    expect(text).toContain(percent(vllm.cache.hitRatio["token"]));
    expect(text).toContain(`${signed(points, 2)} points`);
    expect(text).toContain(`${signed(share * 100, 1)}%`);
    expect(text).toContain(vllm.throughput.requestsPerS.toFixed(2));
    await page.reload();
    expect(await page.getByRole("combobox", { name: "Baseline" }).inputValue()).toBe("sglang");
  });

  test("a comparison shows the saved bounds, and the default baseline is LRU at the same cache size", async () => {
    const idOf = (eviction: string, blocks: number) =>
      readdirSync(runs).find((id) => id.startsWith(`example-hash-table-${eviction}-${blocks}-`))!;
    const ids = [200, 1000, 3000].flatMap((blocks) => [idOf("lru", blocks), idOf("fifo", blocks)]);
    const page = await visit(`${url}#/compare?runs=${ids.slice(0, 4)}`);
    const names = page.locator("figure", { hasText: "Hit ratio by cache size" }).locator(".names text");
    await expect.poll(() => names.allTextContents()).toHaveLength(4);
    expect((await names.allTextContents()).sort()).toEqual(["fifo", "lru", "offline optimum", "unlimited cache"]);
    const differences = page.getByRole("region", { name: "Differences" });
    expect(await page.getByRole("combobox", { name: "Baseline" }).inputValue()).toBe("of:lru");
    for (const blocks of [200, 1000]) {
      const [lru, fifo] = [idOf("lru", blocks), idOf("fifo", blocks)].map((id) => reportOf(id).cache.hitRatio["token"]);
      const points = (fifo - lru) * 100;
      const text = `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(2)} points`;
      const row = await differences.locator("tr", { hasText: `fifo · ${blocks} blocks` }).textContent();
      expect(row).toContain(text);
      const gap = reportOf(idOf("fifo", blocks)).offlineBound.gapClosed["token"] * 100;
      expect(row).toContain(`${gap < 0 ? "−" : ""}${Math.abs(gap).toFixed(2)}%`);
    }
    expect(await differences.locator("tbody tr").count()).toBe(4);
  });

  test("bounds without cached output tokens are not shown for runs that cache output tokens", async () => {
    const kept = ["--blocks", "200", "--rule", "cache-generated=true"];
    await kvlab("replay", "example", "--limit", "800", ...kept, "--out", "runs/keeps");
    const lru = readdirSync(runs).find((id) => id.startsWith("example-hash-table-lru-200-"))!;
    const page = await visit(`${url}#/compare?runs=keeps`);
    const bars = page.locator("figure", { hasText: "Hit ratio" }).locator("svg");
    await page.getByText("No saved bounds are valid for all of these runs").waitFor();
    expect(await bars.getAttribute("aria-label")).not.toContain("unlimited");
    await page.goto(`${url}#/compare?runs=${lru}`);
    await expect.poll(() => bars.getAttribute("aria-label")).toMatch(/lru .*, offline optimum .*, unlimited cache /);
    rmSync(join(runs, "keeps"), { recursive: true });
  });

  test("runs that differ only in a rule are labelled by the rule", async () => {
    const rule = ["--blocks", "200", "--rule", "free-order=forward"];
    await kvlab("replay", "example", "--limit", "800", ...rule, "--out", "runs/forward");
    const lru = readdirSync(runs).find((id) => id.startsWith("example-hash-table-lru-200-"))!;
    const page = await visit(`${url}#/compare?runs=${lru},forward`);
    const links = page.getByRole("region", { name: "Differences" }).getByRole("link");
    await expect.poll(() => links.allTextContents()).toEqual(["free-order forward", "free-order reverse"]);
    rmSync(join(runs, "forward"), { recursive: true });
    await page.getByText("1 selected run, 1 not found: forward").waitFor();
  });

  test("latency quantiles and request pairs are drawn, and the URL keeps the selected metrics", async () => {
    const page = await visit(`${url}#/compare?runs=vllm,sglang`);
    const latencies = page.locator("figure", { hasText: "Latencies" });
    await latencies.getByRole("button", { name: "TPOT" }).click();
    await latencies.locator("svg[aria-label*='time per output token']").waitFor();
    const pairs = page.locator("figure", { hasText: "Request pairs" });
    await pairs.getByLabel("Metric").selectOption("ttftMs");
    await pairs.getByText("800 requests are in both runs").waitFor();
    await pairs.locator("tbody tr").nth(11).waitFor();
    await page.reload();
    expect(await pairs.getByLabel("Metric").inputValue()).toBe("ttftMs");
    expect(await latencies.getByRole("button", { name: "TPOT" }).getAttribute("aria-pressed")).toBe("true");
  });

  test("a run shows its report and the command that reproduces it", async () => {
    const page = await visit(`${url}#/run?id=vllm`, { permissions: ["clipboard-read", "clipboard-write"] });
    const { cache, latency, throughput, command } = reportOf("vllm");
    const tile = (name: string) => page.locator(".tile", { hasText: name }).locator("dd");
    expect(await tile("Hit ratio, tokens").textContent()).toContain(percent(cache.hitRatio["token"]));
    expect(await tile("TTFT").textContent()).toContain(`${latency["ttftMs"].p50.toFixed(1)} ms`);
    expect(await tile("Throughput").textContent()).toContain(`${throughput.requestsPerS.toFixed(2)} req/s`);
    expect(await tile("Evicted").textContent()).toContain(cache.evictedBlocks.toLocaleString("en"));
    const misses = page.locator("figure", { hasText: "Hits and miss reasons" }).locator("svg");
    expect(await misses.getAttribute("aria-label")).toContain(`hit ${cache.hitTokens.toLocaleString("en")},`);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(command);
  });

  test("the ages, lifetimes and hits of blocks are drawn with the numbers of the report", async () => {
    await kvlab("replay", "example", "--limit", "300", "--blocks", "150", "--residency", "--out", "runs/ages");
    const page = await visit(`${url}#/run?id=ages`);
    const figure = page.locator("figure", { hasText: "Residency of blocks" });
    const { cache, residency } = JSON.parse(readFileSync(join(runs, "ages", "run.json"), "utf8"));
    const evicted = cache.evictedBlocks.toLocaleString("en-US");
    await expect.poll(() => figure.locator(".note").textContent()).toContain(`at eviction: ${evicted} blocks`);
    const drawn = async () => (await figure.locator("svg").getAttribute("aria-label"))!;
    const { from, count } = residency.ageAtHit.bins[0];
    expect(await drawn()).toContain(`at hit ${from} ${percent(count / cache.hitBlocks)}`);
    expect(await figure.locator("svg").textContent()).toContain("requests since the last use of the block");
    expect(await figure.locator("svg").textContent()).toContain("share of blocks");
    await figure.getByRole("button", { name: "Misses" }).click();
    expect(await figure.locator("svg").textContent()).toContain("share of tokens");
    const missed = cache.missTokens.evicted.toLocaleString("en-US");
    expect(await figure.locator(".note").textContent()).toContain(`missed: ${missed} tokens`);
    expect(await violations(page)).toEqual([]);
    rmSync(join(runs, "ages"), { recursive: true });
  });

  test("dragging over the time series fetches finer intervals, hovering shows values, and a reload keeps the range", async () => {
    const page = await visit(`${url}#/run?id=vllm`);
    const figure = page.locator("figure", { hasText: "Time series" });
    const note = () => figure.locator(".note").textContent();
    await expect.poll(note).toContain("Means of");
    const before = await note();
    const box = (await figure.locator("svg").boundingBox())!;
    await page.mouse.move(box.x + 300, box.y + 100);
    await page.mouse.down();
    await page.mouse.move(box.x + 500, box.y + 100, { steps: 3 });
    await page.mouse.up();
    await expect.poll(note).not.toBe(before);
    const zoomed = await note();
    expect(page.url()).toMatch(/from=\d+&to=\d+/);
    await page.mouse.move(box.x + 400, box.y + 130);
    await expect.poll(() => figure.locator(".tip").textContent()).toMatch(/running: [\d.]+ requests/);
    await page.reload();
    await expect.poll(note).toBe(zoomed);
    await figure.locator("svg").focus();
    await page.keyboard.press("Shift+ArrowRight");
    await expect
      .poll(() => page.locator("#announcement").textContent())
      .toMatch(/^[\d.]+ to [\d.]+ s, arrivals: .*, evicted: /);
    await figure.getByRole("button", { name: "Whole run" }).click();
    await expect.poll(note).toBe(before);
    await page.goBack();
    await expect.poll(note).toBe(zoomed);
    await page.goBack();
    await expect.poll(note).toBe(before);
  });

  test("at a low rate the hit ratio is drawn as points, with a moving and a cumulative line", async () => {
    const slowly = ["--limit", "40", "--target", "sim", "--blocks", "1000", "--rate", "0.05"];
    await kvlab("replay", "example", ...slowly, "--out", "runs/low-rate");
    const page = await visit(`${url}#/run?id=low-rate`);
    const panel = page.locator("figure", { hasText: "Time series" }).locator("g", { hasText: "cumulative" });
    const points = await panel.locator("path.points").first().getAttribute("d");
    expect(points!.match(/M/g)!.length).toBeGreaterThan(20);
    for (const name of ["moving, last 5 %", "cumulative"])
      expect(
        await panel
          .locator("path", { has: page.locator("title", { hasText: name }) })
          .first()
          .getAttribute("d"),
      ).toMatch(/^M.*L/);
    const text = await panel.first().locator("path", { hasText: "cumulative" }).getAttribute("d");
    const last = Number(text!.split(/[,L]/).at(-1));
    const axis = await panel
      .first()
      .locator(".axis .tick")
      .evaluateAll((ticks) =>
        ticks.map((tick) => [Number(/,([\d.]+)/.exec(tick.getAttribute("transform")!)![1]), tick.textContent] as const),
      );
    const [zero, whole] = ["0%", "100%"].map((name) => axis.find(([, label]) => label === name)![0]);
    const { lookupTokens, hitTokens } = reportOf("low-rate").cache;
    // Ticks are drawn half a pixel lower.
    expect((zero - 0.5 - last) / (zero - whole)).toBeCloseTo(hitTokens / lookupTokens, 2);
    rmSync(join(runs, "low-rate"), { recursive: true });
  });

  test("figures are saved as SVG and PNG, tables as CSV", async () => {
    const page = await visit(`${url}#/compare?trace=example`);
    const saved = async (name: string) => {
      const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
      return readFileSync(await file.path());
    };
    const svg = (await saved("Hit ratio by cache size: save as SVG")).toString();
    expect(svg.includes("unlimited cache</text>")).toBe(true);
    expect(svg.includes("var(")).toBe(false);
    expect((await saved("Throughput: save as PNG")).subarray(1, 4).toString()).toBe("PNG");
    const [header, ...rows] = (await saved("Differences from the baseline: save as CSV")).toString().trim().split("\n");
    expect(header).toMatch(
      /^Run,"Cache size, tokens",Hit ratio,Hit ratio vs\. baseline,"Throughput, req\/s",.*,"TTFT p50, ms",/,
    );
    expect(new Set(header.match(/"[^"]*"|[^,]+/g)).size).toBe(14);
    expect(rows).toHaveLength(12);
  });

  test("a comparison can be started from the page and opened; an invalid value is refused beside its field", async () => {
    const page = await visit(`${url}#/start`);
    await page.getByLabel("lru", { exact: true }).check();
    await page.getByLabel("mru", { exact: true }).check();
    await page.getByLabel("Cache size").fill("300");
    await page.getByLabel("Limit").fill("200");
    const command = page.getByLabel("Command line");
    await expect
      .poll(() => command.textContent())
      .toBe("kvlab compare example --target cache --eviction lru,mru --blocks 300 --limit 200 --out runs");
    await page.reload();
    expect(await page.getByLabel("mru", { exact: true }).isChecked()).toBe(true);
    await expect.poll(() => command.textContent()).toContain("--limit 200");
    await page.getByRole("button", { name: "Start" }).click();
    const jobs = page.getByRole("region", { name: "Jobs" });
    await jobs.getByRole("cell", { name: "done" }).waitFor();
    await page
      .getByRole("status")
      .filter({ hasText: /^Job \d: running\. See Jobs below/ })
      .waitFor();
    await jobs.getByRole("link", { name: /compare \d/ }).click();
    await page.getByText(/\d selected runs/).waitFor();
    await page.goto(`${url}#/start`);
    await page.getByLabel("Cache size").fill("none at all");
    await page.getByRole("button", { name: "Start" }).click();
    const blocks = page.getByLabel("Cache size");
    await page.getByRole("alert").filter({ hasText: 'is "none", expected a number of blocks' }).waitFor();
    expect(await blocks.getAttribute("aria-invalid")).toBe("true");
    await expect.poll(() => blocks.evaluate("document.activeElement.id")).toBe("field-blocks");
  });

  test("the form shows and sends only the fields of the selected target", async () => {
    const page = await visit(
      `${url}#/start?target=sim&gpu=l40s&rates=2,4&replicas=2&routers=random&events=yes&presets=vllm`,
    );
    const command = page.getByLabel("Command line");
    const words = "--preset vllm --gpu l40s --replicas 2 --router random --rate 2,4 --events --out runs";
    await expect.poll(() => command.textContent()).toBe(`kvlab compare example --target sim ${words}`);
    await page.getByLabel("Replicas").fill("1");
    await page.getByText("Routers").waitFor({ state: "hidden" });
    await page.getByLabel("Target").selectOption("cpu");
    await page.getByLabel("Hardware").waitFor({ state: "hidden" });
    await page.getByRole("combobox", { name: "Model" }).selectOption("random:tiny-gpt2");
    const onEngine =
      "kvlab compare example --target cpu --preset vllm --model random:tiny-gpt2 --rate 2,4 --events --out runs";
    await expect.poll(() => command.textContent()).toBe(onEngine);
    await page.getByLabel("Target").selectOption("cache");
    await expect.poll(() => command.textContent()).toBe("kvlab replay example --target cache --preset vllm --events");
  });

  test("a running job can be cancelled from the page", async () => {
    const page = await visit(`${url}#/start`);
    for (const policy of ["lru", "fifo", "lfu", "mru", "random"])
      await page.getByRole("checkbox", { name: policy, exact: true }).check();
    await page.getByLabel("Cache size").fill("1%, 2%, 3%, 5%, 8%, 13%, 21%, 34%");
    await page.getByRole("button", { name: "Start" }).click();
    const jobs = page.getByRole("region", { name: "Jobs" });
    await jobs.getByRole("button", { name: "Cancel job" }).click();
    await jobs.getByRole("cell", { name: "cancelled" }).waitFor();
    expect(await jobs.getByRole("button", { name: "Cancel job" }).count()).toBe(0);
  });

  test("of many runs the first are on the page, scrolling adds more, and search, selection and CSV cover all", async () => {
    const many = join(folder, "many");
    const report = readFileSync(join(runs, "vllm/run.json"));
    for (let i = 0; i < 1200; i++) {
      mkdirSync(join(many, `run-${i}`), { recursive: true });
      writeFileSync(join(many, `run-${i}/run.json`), report);
    }
    const { dashboard } = await dashboardOver(many, { page: await bundlePage() });
    const page = await visit(`${dashboard.url}#/runs?sort=-id`);
    await page.getByText("100 of 1200 rows").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(100);
    await page.evaluate("document.querySelector('.scroll').scrollTo(0, 1e6)");
    await expect.poll(() => page.locator("tbody tr").count()).toBe(200);
    await page.getByRole("button", { name: "Show more" }).click();
    await expect.poll(() => page.locator("tbody tr").count()).toBeGreaterThanOrEqual(300);
    expect((await listed(page)).slice(0, 300)).toEqual(Array.from({ length: 300 }, (_, i) => `run-${1199 - i}`));
    await page.getByRole("button", { name: "Select all" }).click();
    await page.getByRole("link", { name: "Compare 1200" }).waitFor();
    const save = page.getByRole("button", { name: "Runs: save as CSV" });
    const [file] = await Promise.all([page.waitForEvent("download"), save.click()]);
    expect(
      readFileSync(await file.path(), "utf8")
        .trim()
        .split("\n"),
    ).toHaveLength(1201);
    await page.getByLabel("Search").fill("run-7");
    await expect.poll(() => listed(page)).toHaveLength(111);
  });
});
