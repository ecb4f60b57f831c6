import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let url = "";

type Report = Record<string, Record<string, unknown>>;

/** A copy of a real run with changed fields, as if other settings had been run. */
function copyRun(from: string, to: string, change: (report: Report) => void): void {
  cpSync(join(runs, from), join(runs, to), { recursive: true });
  const file = join(runs, to, "run.json");
  const report = JSON.parse(readFileSync(file, "utf8")) as Report;
  change(report);
  writeFileSync(file, JSON.stringify(report));
}

const ofSize = (eviction: string, blocks: number) => (report: Report) =>
  Object.assign(report["policy"], { eviction, blocks });

/** Removes runs at the end of a test. */
async function withRuns(ids: readonly string[], body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } finally {
    for (const id of ids) rmSync(join(runs, id), { recursive: true, force: true });
  }
}

const warnings = (page: Page) => page.locator(".warnings li").allTextContents();
const linkTo = (...ids: readonly string[]) => `${url}#/compare?runs=${ids.map(encodeURIComponent).join(",")}`;

describe.runIf(hasBrowser)("a comparison in a browser", () => {
  beforeAll(async () => {
    const example = ["replay", "example", "--limit", "400"];
    const made = {
      cached: [...example, "--blocks", "1000"],
      timed: [...example, "--target", "sim", "--preset", "vllm", "--blocks", "1000"],
    };
    for (const [id, args] of Object.entries(made)) {
      const { code, stderr } = await ended(start(folder, [...args, "--out", `runs/${id}`]));
      if (code !== 0) throw new Error(stderr);
    }
    const { dashboard } = await dashboardOver(runs, { page: await bundlePage() });
    url = dashboard.url;
  }, 120_000);

  test("a line is broken at a size that only other policies were run at, and points are marked", async () => {
    const made = [
      ["lru-a", "lru", 500],
      ["lru-c", "lru", 4000],
      ["mru-a", "mru", 500],
      ["mru-b", "mru", 2000],
      ["mru-c", "mru", 4000],
    ] as const;
    for (const [id, eviction, blocks] of made) copyRun("cached", id, ofSize(eviction, blocks));
    const ids = made.map(([id]) => id);
    await withRuns(ids, async () => {
      const page = await visit(linkTo(...ids));
      const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
      await figure.locator(".names text").nth(1).waitFor();
      const drawn = await figure.locator("g[stroke-width='2.25'] > path").evaluateAll((paths) =>
        paths.map((path) => ({
          parts: path.getAttribute("d")!.match(/M/g)!.length,
          colour: path.getAttribute("stroke"),
        })),
      );
      expect(drawn.map(({ parts }) => parts).sort()).toEqual([1, 2]);
      expect(new Set(drawn.map(({ colour }) => colour)).size).toBe(2);
    });
  });

  test("an interrupted run is listed by its name, not drawn, and not the baseline", async () => {
    copyRun("cached", "half,done", (report) => {
      ofSize("lru", 500)(report);
      Object.assign(report, { interrupted: { requestsDone: 10, of: 400 } });
    });
    copyRun("cached", "whole", ofSize("mru", 500));
    await withRuns(["half,done", "whole"], async () => {
      const page = await visit(`${url}#/compare?runs=half%252Cdone,whole,cached`);
      await page.getByText("Interrupted runs are not drawn: half,done.").waitFor();
      const names = await page
        .locator("figure", { hasText: "Hit ratio by cache size" })
        .locator(".names text")
        .allTextContents();
      expect(names.filter((name) => name.includes("half"))).toEqual([]);
      const table = page.getByRole("region", { name: "Differences" });
      expect(await table.getByRole("link", { name: "half,done (interrupted)" }).count()).toBe(1);
      const choices = await page.getByRole("combobox", { name: "Baseline" }).locator("option").allTextContents();
      expect(choices.filter((name) => name.includes("half"))).toEqual([]);
    });
  });

  test("a hit ratio that a run does not have is left out, not drawn as 0", async () => {
    copyRun("cached", "without", (report) => {
      ofSize("mru", 1000)(report);
      delete (report["cache"]["hitRatio"] as Record<string, number>)["fullBlock"];
    });
    await withRuns(["without"], async () => {
      const page = await visit(`${linkTo("cached", "without")}&metric=fullBlock`);
      await page.getByText("1 of 2 runs do not have this hit ratio.").waitFor();
      const bars = page.locator("figure", { hasText: "Hit ratio" }).locator("svg");
      expect(await bars.getAttribute("aria-label")).toMatch(/^hit ratio: lru [\d.]+%$/);
    });
  });

  test("runs of other workloads are compared with a warning that names what differs, and without a bound", async () => {
    copyRun("cached", "other", (report) => {
      ofSize("mru", 1000)(report);
      Object.assign(report["trace"], { files: ["/data/other.jsonl"], requests: 20 });
    });
    copyRun("timed", "faster", (report) => Object.assign(report["simulation"], { requestsPerS: 8 }));
    await withRuns(["other", "faster"], async () => {
      const page = await visit(linkTo("cached", "other"));
      await expect
        .poll(() => warnings(page))
        .toEqual([
          "The runs are not of one workload: their differences are not only those of policies.",
          "Different traces: example, other.",
          "Different numbers of requests: 20, 400.",
        ]);
      await page.goto(linkTo("timed", "faster"));
      await expect.poll(() => warnings(page)).toContain("Different arrivals: 8 req/s, as in the trace.");
      await page.goto(linkTo("timed", "cached"));
      await expect.poll(() => warnings(page)).toContain("Different kinds of target: with a clock, without a clock.");
    });
  });

  test("the trace of an open page stays when a run of another trace is saved", async () => {
    const page = await visit(`${url}#/compare`);
    const list = page.getByRole("combobox", { name: "All runs of" });
    await expect.poll(() => list.inputValue()).toBe("example, 400 requests, sim");
    copyRun("cached", "newer", (report) => Object.assign(report["trace"], { files: ["/data/other.jsonl"] }));
    await withRuns(["newer"], async () => {
      await expect
        .poll(() => list.locator("option").allTextContents())
        .toEqual(["other, 400 requests, cache", "example, 400 requests, sim", "example, 400 requests, cache"]);
      expect(await list.inputValue()).toBe("example, 400 requests, sim");
      expect(new URL(page.url()).hash).toContain("workload=example");
    });
  });

  test("ticks do not repeat where all hit ratios are small", async () => {
    const small = (eviction: string, blocks: number, ratio: number) => (report: Report) => {
      ofSize(eviction, blocks)(report);
      Object.assign(report["cache"]["hitRatio"] as object, { token: ratio });
    };
    copyRun("cached", "small-a", small("mru", 500, 0.011));
    copyRun("cached", "small-b", small("mru", 2000, 0.019));
    await withRuns(["small-a", "small-b"], async () => {
      const page = await visit(`${linkTo("small-a", "small-b")}&metric=token`);
      const ticks = page
        .locator("figure", { hasText: "Hit ratio by cache size" })
        .locator(".axis")
        .nth(1)
        .locator(".tick text");
      await ticks.nth(2).waitFor();
      const texts = await ticks.allTextContents();
      expect(new Set(texts).size).toBe(texts.length);
    });
  });

  test("a click on a label isolates its line, and Escape shows all", async () => {
    copyRun("cached", "mru-a", ofSize("mru", 500));
    copyRun("cached", "mru-b", ofSize("mru", 1000));
    copyRun("cached", "lru-a", ofSize("lru", 500));
    await withRuns(["mru-a", "mru-b", "lru-a"], async () => {
      const page = await visit(linkTo("mru-a", "mru-b", "lru-a", "cached"));
      const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
      const faded = figure.locator("g[stroke-width='2.25'] > path[opacity]");
      await figure.locator(".names text", { hasText: "lru" }).click();
      await expect.poll(() => faded.count()).toBe(1);
      await figure.locator("svg").focus();
      await page.keyboard.press("Escape");
      await expect.poll(() => faded.count()).toBe(0);
    });
  });

  test("of more than 12 runs those with the lowest median are drawn, and the note says so", async () => {
    const ids = Array.from({ length: 14 }, (_, i) => `run-${i}`);
    ids.forEach((id, i) => {
      copyRun("timed", id, (report) => {
        Object.assign(report, { seed: i + 2 });
        const { ttftMs } = report["latency"] as Record<string, Record<string, number>>;
        ttftMs["p50"] *= 20 - i;
      });
    });
    await withRuns(ids, async () => {
      const page = await visit(linkTo(...ids));
      const figure = page.locator("figure", { hasText: "Latencies" });
      await figure.getByText("The 12 runs with the lowest median time to first token are drawn; 2 are not.").waitFor();
      const names = await figure.locator(".names text").allTextContents();
      expect(names).toHaveLength(12);
      expect(names).toContain("seed 15");
      expect(names).not.toContain("seed 2");
    });
  });

  test("a comparison of 302 runs has a short link, which selects the same runs", async () => {
    const ids = Array.from({ length: 302 }, (_, i) => `a-run-with-a-rather-long-name-${i}`);
    for (const id of ids) {
      mkdirSync(join(runs, id));
      const report = JSON.parse(readFileSync(join(runs, "cached", "run.json"), "utf8"));
      writeFileSync(join(runs, id, "run.json"), JSON.stringify(report));
    }
    await withRuns(ids, async () => {
      const page = await visit(`${url}#/runs?q=rather-long`);
      await page.getByText("302 of 304 runs").waitFor();
      await page.getByRole("button", { name: "Select all" }).click();
      await page.getByRole("link", { name: "Compare 302" }).click();
      await page.getByText("302 selected runs").waitFor();
      expect(page.url().length).toBeLessThan(2300);
    });
  });

  test("a relative difference above ten is shown as a factor", async () => {
    copyRun("timed", "slow", (report) => {
      const { ttftMs } = report["latency"] as Record<string, Record<string, number>>;
      ttftMs["p50"] *= 223;
    });
    await withRuns(["slow"], async () => {
      const page = await visit(`${linkTo("timed", "slow")}&base=timed`);
      await page.getByRole("region", { name: "Differences" }).getByText("× 223", { exact: true }).waitFor();
    });
  });

  test("the settings in which two runs differ are listed, rules included", async () => {
    copyRun("cached", "other-rule", (report) => {
      ofSize("mru", 1000)(report);
      Object.assign(report["policy"]["rules"] as object, { "free-order": "forward" });
    });
    await withRuns(["other-rule"], async () => {
      const page = await visit(linkTo("cached", "other-rule"));
      const table = page.getByRole("region", { name: "Settings that differ" });
      await table.waitFor();
      const cells = await table.locator("tbody tr").allTextContents();
      expect(cells.sort()).toEqual(["evictionlrumru", "free-orderreverseforward"]);
      await page.goto(linkTo("cached", "timed", "other-rule"));
      await page.getByText("3 selected runs").waitFor();
      expect(await table.count()).toBe(0);
    });
  });

  test("the landing page names the best policy, its gain over LRU and the share of the gap to the bound, as in the reports", async () => {
    const words = ["compare", "example", "--limit", "600", "--eviction", "lru,lfu,fifo", "--blocks", "300,1000"];
    const { code, stdout, stderr } = await ended(start(folder, [...words, "--json", "--out", "runs"]));
    if (code !== 0) throw new Error(stderr);
    type Ratios = Record<string, number>;
    interface Saved {
      readonly policy: { readonly eviction: string; readonly blocks: number };
      readonly cache: { readonly hitRatio: Ratios; readonly hitTokens: number };
      readonly offlineBound: { readonly gapClosed: Ratios };
    }
    const reports = (JSON.parse(stdout) as { runs: Saved[] }).runs;
    const at = (blocks: number) =>
      reports.filter(({ policy }) => policy.blocks === blocks && ["lru", "lfu", "fifo"].includes(policy.eviction));
    const page = await visit(url);
    await page.getByRole("heading", { name: "Which policy?" }).waitFor();
    await page.getByRole("combobox", { name: "Workload" }).selectOption("example, 600 requests, cache");
    const table = page.getByRole("region", { name: "The best policy at each cache size" });
    await table.waitFor();
    for (const blocks of [300, 1000]) {
      const best = at(blocks).reduce((most, each) =>
        each.cache.hitRatio["block"] > most.cache.hitRatio["block"] ? each : most,
      );
      const lru = at(blocks).find(({ policy }) => policy.eviction === "lru")!;
      const row = (await table.locator("tr", { hasText: blocks.toLocaleString("en") }).textContent())!;
      expect(row).toContain(best.policy.eviction);
      expect(row).toContain(`${(best.cache.hitRatio["block"] * 100).toFixed(2)}%`);
      const gain = (best.cache.hitRatio["block"] - lru.cache.hitRatio["block"]) * 100;
      expect(row).toContain(`+${gain.toFixed(2)} points`);
      expect(row).toContain(`${(best.offlineBound.gapClosed["block"] * 100).toFixed(2)}%`);
    }
    await page.getByRole("combobox", { name: "Cache size" }).selectOption({ index: 0 });
    await page.locator(".tile", { hasText: "Best policy" }).getByText("300 blocks").waitFor();
    await page.reload();
    await page.locator(".tile", { hasText: "Best policy" }).getByText("300 blocks").waitFor();
    await page.getByRole("link", { name: "Compare these runs" }).click();
    await page.locator("figure", { hasText: "Hit ratio by cache size" }).getByText("lfu", { exact: true }).waitFor();
  });

  test("any result is drawn against any setting: TTFT p99 by offered rate, a line for each system", async () => {
    const rates = [2, 4, 8];
    const ids = rates.flatMap((rate) =>
      ["vllm", "sglang"].map((preset) => {
        const id = `${preset}-${rate}`;
        copyRun("timed", id, (report) => {
          Object.assign(report["policy"], { preset });
          Object.assign(report["simulation"], { requestsPerS: rate });
          const { ttftMs } = report["latency"] as Record<string, Record<string, number>>;
          ttftMs["p99"] = preset === "vllm" ? rate * 100 : rate * 50;
        });
        return id;
      }),
    );
    await withRuns(ids, async () => {
      const page = await visit(linkTo(...ids));
      const figure = page.locator("figure", { hasText: "Any result by any setting" });
      const svg = figure.locator("svg");
      await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/^TTFT p99 by offered rate, req\/s\. /);
      expect((await figure.locator(".names text").allTextContents()).sort()).toEqual(["sglang", "vllm"]);
      await svg.focus();
      const read = new Set<string>();
      for (const line of [1, 2]) {
        await page.keyboard.press("ArrowDown");
        for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowLeft");
        for (let i = 0; i < 3; i++) {
          read.add(`${line} ${(await page.locator("#announcement").textContent())!.replaceAll("\n", " ")}`);
          await page.keyboard.press("ArrowRight");
        }
      }
      const texts = [...read].map((text) => text.slice(2));
      for (const rate of rates) {
        expect(texts).toContain(`vllm: ${rate * 100} ms offered rate, req/s: ${rate}.00/s`);
        expect(texts.some((text) => text.startsWith("sglang: ") && text.endsWith(`: ${rate}.00/s`))).toBe(true);
      }
      await figure.getByLabel("x axis").selectOption({ label: "TTFT p50" });
      await figure.getByLabel("y axis").selectOption({ label: "throughput, req/s" });
      await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/^throughput, req\/s by TTFT p50\. /);
      expect(page.url()).toMatch(/x=ttft50&y=throughput/);
    });
  });
});
