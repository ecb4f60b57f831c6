import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { findings, hasBrowser, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let url = "";

/** Each view with an element that it has when it is drawn, and what is done before it is checked. */
const views: readonly { readonly view: string; readonly drawn: string; act?(page: Page): Promise<void> }[] = [
  { view: "answer?workload=example,+300+requests,+cache", drawn: ".tiles" },
  { view: "answer?workload=example,+300+requests,+sim", drawn: "table a" },
  { view: "runs", drawn: "tbody tr" },
  {
    view: "runs?runs=vllm",
    drawn: "tbody tr.selected",
    act: (page) => page.getByRole("button", { name: "Edit vllm" }).click(),
  },
  { view: "compare?workload=example,+300+requests,+cache", drawn: "figure path" },
  { view: "compare?runs=vllm,sglang", drawn: "figure path" },
  { view: "curves?id=curves", drawn: "figure path" },
  { view: "sizes?id=size", drawn: "figure path" },
  { view: "run?id=vllm", drawn: "svg.series path" },
  { view: "travel?id=vllm&event=1000", drawn: ".readout dd" },
  { view: "travel?id=vllm&with=sglang&event=1000", drawn: ".readout dd" },
  { view: "live?id=active", drawn: ".mark" },
  { view: "start", drawn: "form button" },
  { view: "run?id=nothing", drawn: "[role=alert]" },
  { view: "no-such-view", drawn: "[role=alert]" },
];

/** A running program, as `kvlab replay --live` publishes it. */
function writeLiveRun(): void {
  const live = join(runs, ".live/active");
  mkdirSync(live, { recursive: true });
  const header = {
    ...{ schema: "live/1", pid: process.pid, host: hostname(), command: "kvlab replay example --live", run: null },
    ...{ trace: "example", requests: 300, target: "sim", preset: "vllm", index: "hash-table", eviction: "lru" },
    ...{ allocator: "block", scheduler: "fcfs-chunked", victims: "any", blocks: 300, blockTokens: 16 },
  };
  const now = {
    ...{ state: "running", requestsDone: 120, timeNs: 60e9, running: 8, waiting: 3, lookupTokens: 90_000 },
    ...{
      blocks: { free: 10, private: 40, held: 150, idle: 100 },
      hitTokens: 30_000,
      evictedBlocks: 500,
      preemptions: 2,
    },
    ...{
      hitRatio: { token: 1 / 3 },
      throughput: { requestsPerS: 2, outputTokensPerS: 300 },
      events: null,
      eventsWritten: 0,
    },
  };
  writeFileSync(join(live, "header.json"), JSON.stringify(header));
  writeFileSync(join(live, "now.json"), JSON.stringify(now));
}

describe.runIf(hasBrowser)("every view", () => {
  beforeAll(async () => {
    const example = ["example", "--limit", "300"];
    await kvlab(folder, ["compare", ...example, "--eviction", "lru,fifo", "--blocks", "200,1000", "--out", "runs"]);
    for (const preset of ["vllm", "sglang"]) {
      const options = ["--target", "sim", "--preset", preset, "--blocks", "600", "--rate", "4", "--slo", "ttft=500ms"];
      await kvlab(folder, ["replay", ...example, ...options, "--events", "--residency", "--out", preset]);
      renameSync(join(folder, preset), join(runs, preset));
    }
    await kvlab(folder, [
      "curve",
      ...example,
      "--eviction",
      "lru,fifo",
      "--blocks",
      "200,1000",
      "--bound",
      "--out",
      "runs/curves",
    ]);
    const size = [
      "--limit",
      "100",
      "--gpu",
      "l40s",
      "--tp",
      "1",
      "--max-gpus",
      "8",
      "--rate",
      "40",
      "--slo",
      "ttft=500ms:p90",
    ];
    await kvlab(folder, ["size", "example", ...size, "--out", "runs/size"]);
    mkdirSync(join(runs, "unreadable"));
    writeLiveRun();
    const over = await dashboardOver(runs, { page: await bundlePage() });
    url = over.dashboard.url;
    const notes = { name: "vLLM with a name", tags: ["paper", "draft-2"], text: "a note", baseline: true };
    expect((await over.patch("vllm", notes)).status).toBe(200);
  }, 120_000);

  test.each([
    { colorScheme: "light", viewport: { width: 1440, height: 900 } },
    { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
    { colorScheme: "light", viewport: { width: 390, height: 844 } },
    { colorScheme: "dark", viewport: { width: 390, height: 844 } },
  ] as const)(
    "has no accessibility finding, no console error, no foreign request and fits: %o",
    async (options) => {
      const page = await visit("about:blank", options);
      const hosts = new Set<string>();
      page.on("request", (request) => hosts.add(new URL(request.url()).origin));
      for (const { view, drawn, act } of views) {
        await page.goto("about:blank");
        await page.goto(`${url}#/${view}`);
        await page.locator("main h1").waitFor();
        await page.locator(drawn).first().waitFor({ state: "attached" });
        await act?.(page);
        // Figures whose data arrive later.
        await page.waitForTimeout(200);
        expect({ view, findings: await findings(page) }).toEqual({ view, findings: [] });
        const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
        expect({ view, isWide }).toEqual({ view, isWide: false });
      }
      // Saved figures are drawn from data URLs.
      expect([...hosts].filter((origin) => origin !== "null")).toEqual([new URL(url).origin]);
    },
    180_000,
  );
});
