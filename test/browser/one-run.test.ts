import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import type { RequestHistory, SessionsData } from "../../viz/api.ts";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { type Client, dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

interface Report {
  readonly slo: { readonly attained: number };
  readonly cluster: { readonly imbalance: number; readonly replicas: readonly { readonly requests: number }[] };
  readonly refusals: Readonly<Record<string, number>>;
  readonly cache: { readonly refusedRequests: number };
}

const folder = newFolder();
const runs = join(folder, "runs");
let client: Client;
let url = "";

async function replay(id: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await ended(start(folder, ["replay", "example", ...args, "--out", `runs/${id}`]));
  if (code !== 0) throw new Error(stderr);
}

const reportOf = (id: string): Report => JSON.parse(readFileSync(join(runs, id, "run.json"), "utf8"));
const percent = (ratio: number) => `${(ratio * 100).toFixed(2)}%`;
const tile = (page: Page, name: string) => page.locator(".tile", { has: page.getByText(name, { exact: true }) });
const figure = (page: Page, title: string) =>
  page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) });

describe.runIf(hasBrowser)("one run in a browser", () => {
  beforeAll(async () => {
    const sim = ["--limit", "300", "--target", "sim", "--preset", "vllm", "--slo", "ttft=100ms,tpot=50ms"];
    await replay("cluster", ...sim, "--blocks", "80", "--replicas", "2", "--rate", "8");
    await replay("events", ...sim, "--blocks", "1000", "--events");
    await replay("fifo", ...sim, "--blocks", "1000", "--eviction", "fifo", "--events");
    client = await dashboardOver(runs, { page: await bundlePage() });
    url = client.dashboard.url;
  }, 120_000);

  test("SLO, utilisation, balance of replicas and reasons of refusals are beside the throughput", async () => {
    const page = await visit(`${url}#/run?id=cluster`);
    const { slo, cluster, refusals, cache } = reportOf("cluster");
    expect(cache.refusedRequests).toBeGreaterThan(0);
    await tile(page, "Goodput")
      .getByText(`${percent(slo.attained)} of requests meet the SLO`)
      .waitFor();
    await tile(page, "Replica balance")
      .getByText(`× ${cluster.imbalance.toFixed(2)}`)
      .waitFor();
    expect(await tile(page, "Utilisation").textContent()).toContain("of 2 replicas");
    const [[reason, count]] = Object.entries(refusals);
    expect(await tile(page, "Requests").textContent()).toContain(
      `${cache.refusedRequests} refused: ${reason} ${count}`,
    );
    await page.goto(`${url}#/compare?runs=cluster,events`);
    const service = page.getByRole("region", { name: "Service of the runs" });
    await service.waitFor();
    const row = await service.locator("tbody tr", { has: page.locator('a[href*="id=cluster"]') }).textContent();
    expect(row).toContain(percent(slo.attained));
    expect(row).toContain(`${reason} ${count}`);
  });

  test("quantiles of TTFT, TPOT and queueing time over time are in the time series and in its tooltip", async () => {
    const page = await visit(`${url}#/run?id=events`);
    const svg = figure(page, "Time series").locator("svg.series");
    await expect
      .poll(() => svg.getAttribute("aria-label"))
      .toMatch(/TTFT, maximum .*TPOT, maximum .*queueing time, maximum/);
    await svg.focus();
    await page.keyboard.press("Shift+ArrowRight");
    await expect.poll(() => page.locator("#announcement").textContent()).toMatch(/TTFT p50: \d.*TTFT p99: \d/);
  });

  test("the distribution functions of all latencies are drawn and read by arrow keys", async () => {
    const page = await visit(`${url}#/run?id=events`);
    const svg = figure(page, "Latency distributions").locator("svg");
    await expect.poll(() => svg.getAttribute("aria-label")).toMatch(/time to first token: p100/);
    await svg.focus();
    await page.keyboard.press("ArrowRight");
    await expect
      .poll(() => page.locator("#announcement").textContent())
      .toMatch(/^time to first token: p1: [\d.]+ ms$/);
  });

  test("each replica has a row and its hit ratio, throughput and utilisation over time", async () => {
    const page = await visit(`${url}#/run?id=cluster`);
    const replicas = figure(page, "Replicas");
    await expect
      .poll(() => replicas.locator("h3").allTextContents())
      .toEqual(["Replica 0", "Replica 1", "All replicas"]);
    const rows = await replicas.locator("tbody tr").allTextContents();
    reportOf("cluster").cluster.replicas.forEach(({ requests }, i) => {
      expect(rows[i].startsWith(`${i}${requests}`)).toBe(true);
    });
    const utilisation = replicas.getByRole("group", { name: "Result" }).getByRole("button", { name: "Utilisation" });
    await utilisation.click();
    expect(page.url()).toContain("replicas=busy");
    await expect
      .poll(() => replicas.locator("svg").first().getAttribute("aria-label"))
      .toContain("Replica 0: share of time with a batch");
    await page.reload();
    expect(await utilisation.getAttribute("aria-pressed")).toBe("true");
  });

  test("a session leads to its requests, a request to its history, and its admission to the cache at that event", async () => {
    const { sessions } = await client.get<SessionsData>("/api/runs/events/sessions?most=1");
    const [{ session, firstRequest, requests }] = sessions;
    const page = await visit(`${url}#/run?id=events`);
    await page.getByRole("link", { name: `session ${session}`, exact: true }).click();
    await page.getByRole("heading", { name: `Request #${firstRequest}`, exact: true }).waitFor();
    const table = page.getByRole("region", { name: "Requests of the session" });
    await expect.poll(() => table.locator("tbody tr").count()).toBe(requests);
    const history = await client.get<RequestHistory>(`/api/runs/events/history?request=${firstRequest}`);
    const facts = page.getByRole("region", { name: "Times and tokens of the request" });
    expect(await facts.locator("tr", { hasText: "cached tokens" }).textContent()).toBe(
      `cached tokens${history.columns["hitTokens"]!.toLocaleString("en")}`,
    );
    expect(await violations(page)).toEqual([]);
    const next = history.session[1].request;
    await table.getByRole("link", { name: `#${next}`, exact: true }).click();
    await page.getByRole("heading", { name: `Request #${next}`, exact: true }).waitFor();
    await page.getByRole("link", { name: "admitted", exact: true }).first().click();
    await page
      .getByText(/^request \d+ is admitted|admitted/i)
      .first()
      .waitFor();
    expect(page.url()).toMatch(/#\/travel\?id=events&event=\d+/);
  });

  test("a click on a point of the request pairs opens the history of the request in both runs", async () => {
    const page = await visit(`${url}#/compare?runs=events,fifo&a=events&b=fifo&pair=ttftMs`);
    const pairs = figure(page, "Request pairs");
    const dot = pairs.locator("svg circle").last();
    await dot.scrollIntoViewIfNeeded();
    const { x, y, width, height } = (await dot.boundingBox())!;
    await page.mouse.move(x + width / 2 + 1, y + height / 2 + 1);
    await page.mouse.click(x + width / 2, y + height / 2);
    await page.getByRole("heading", { name: /^Request #\d+$/ }).waitFor();
    expect(page.url()).toMatch(/#\/request\?id=events&with=fifo&request=\d+/);
    const label = page.getByRole("img", { name: /^Time from the arrival\. lru: queueing .*; fifo: queueing / });
    await label.waitFor();
  });

  test("the number of a request opens its history; a request that is not in the run is refused with a message", async () => {
    const page = await visit(`${url}#/run?id=events`);
    await page.getByLabel("Open the history of request").fill("7");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Request #7", exact: true }).waitFor();
    await page.goto(`${url}#/request?id=events&request=300`);
    await page.getByText("This request cannot be shown: the run has no request 300").waitFor();
    await page.goto(`${url}#/request?id=events&request=x`);
    await page.getByText("The address names no request.").waitFor();
    await page.goto(`${url}#/request`);
    await page.getByRole("heading", { name: "Request" }).waitFor();
  });

  test("the view of a run and of a request fit on a narrow screen", async () => {
    const page = await visit(`${url}#/run?id=cluster`, { viewport: { width: 390, height: 844 } });
    await figure(page, "Replicas").locator("h3").first().waitFor();
    const fits = () => page.evaluate("document.documentElement.scrollWidth <= innerWidth");
    expect(await fits()).toBe(true);
    await page.goto(`${url}#/request?id=events&with=fifo&request=9`);
    await figure(page, "Time from the arrival").waitFor();
    expect(await fits()).toBe(true);
  });
});
