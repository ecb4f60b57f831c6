import type { ChildProcess } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { type Client, dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let url = "";
let client: Client;

/** Arguments of an engine run in real time with `limit` requests, eight per second. */
const paced = (limit: number) => [
  ...["replay", "example", "--limit", `${limit}`, "--target", "cpu", "--model", "random:tiny", "--threads", "1"],
  ...["--blocks", "300", "--pace", "real", "--rate", "8", "--events", "--live"],
];
/** Arguments of a simulation that takes seconds, because `--audit` checks every step. */
const slow = [
  "replay",
  "example",
  "--limit",
  "400",
  "--target",
  "sim",
  "--preset",
  "sglang",
  "--blocks",
  "600",
  "--audit",
];

const mine = join(folder, "mine");
const ready = join(folder, "ready");
/** FIFO eviction that waits 1 ms per eviction until the file `ready` exists, so that its run lasts until the test creates the file. */
const slowPolicy = `
import { existsSync } from "node:fs";
const cell = new Int32Array(new SharedArrayBuffer(4));
const create = () => {
  const entries = new Set();
  const victim = () => {
    if (!existsSync(${JSON.stringify(ready)})) Atomics.wait(cell, 0, 0, 1);
    return entries.values().next().value;
  };
  return { add: (entry) => entries.add(entry), remove: (entry) => entries.delete(entry), victim };
};
export default { create };
`;

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

function begin(args: readonly string[], program?: string[]): ChildProcess {
  const child = start(folder, args, { XDG_CACHE_HOME: join(folder, "cache") }, program);
  children.push(child);
  return child;
}

const eventually = <Found>(of: () => Promise<Found> | Found) => expect.poll(of, { timeout: 20_000 });
const tile = (page: Page, name: string) => page.locator(".tile", { hasText: name }).locator("dd");
const number = async (page: Page, name: string) => Number.parseFloat((await tile(page, name).textContent())!);
const series = (page: Page) => page.locator("figure", { hasText: "Time series" }).locator("svg.series");
const activeRuns = (page: Page) => page.getByRole("region", { name: "Active runs" });

describe.runIf(hasBrowser)("an active run in a browser", () => {
  beforeAll(async () => {
    mkdirSync(mine);
    writeFileSync(join(mine, "slow.ts"), slowPolicy);
    client = await dashboardOver(runs, { page: await bundlePage(), policies: mine });
    url = client.dashboard.url;
  }, 180_000);

  test("an engine run appears when it starts, its metrics are updated, and at its end the view links to the saved run", async () => {
    const page = await visit(`${url}#/runs`);
    await page.getByText("0 of 0 runs").waitFor();
    expect(await activeRuns(page).isVisible()).toBe(false);
    const child = begin(paced(80));
    const end = ended(child);
    await activeRuns(page).getByText("running", { exact: true }).waitFor();
    await activeRuns(page).getByRole("link").click();
    await page.getByText("real engine (cpu)").waitFor();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(2);
    const before = await number(page, "Requests done");
    const drawn = await series(page).getAttribute("aria-label");
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(before);
    await eventually(() => series(page).getAttribute("aria-label")).not.toBe(drawn);
    await page.reload();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(before);
    const blockMap = page
      .getByRole("region", { name: "Current cache" })
      .locator("figure", { hasText: "Blocks now" })
      .getByRole("img");
    await blockMap.waitFor();
    const pixels = () => page.evaluate(`document.querySelector("[aria-label^='Blocks now:'] canvas").toDataURL()`);
    const blocks = await pixels();
    await eventually(pixels).not.toBe(blocks);
    expect(await page.evaluate("document.querySelector('.mark.running .dot').getAnimations().length")).toBe(0);

    expect((await end).code).toBe(0);
    await page.getByText("The run has ended.").waitFor();
    await page.reload();
    await page.getByRole("link", { name: "Open the saved run" }).click();
    await eventually(() => page.url()).toContain("#/run?id=");
    const id = new URL(page.url().replace("#/", "")).searchParams.get("id")!;
    const { cache } = JSON.parse(readFileSync(join(runs, id, "run.json"), "utf8"));
    await eventually(() => tile(page, "Hit ratio, tokens").textContent()).toContain(
      `${(cache.hitRatio.token * 100).toFixed(2)}%`,
    );
  });

  test("a killed process is shown as killed, and an interrupted one links to the saved part of its run", async () => {
    const page = await visit(`${url}#/runs`);
    const killed = begin([...slow, "--live"]);
    const exit = ended(killed);
    await activeRuns(page).getByText("running", { exact: true }).waitFor();
    killed.kill("SIGKILL");
    await exit;
    await activeRuns(page).getByText("killed", { exact: true }).waitFor();

    const child = begin(paced(400));
    const end = ended(child);
    await activeRuns(page).getByText("running", { exact: true }).waitFor();
    await activeRuns(page).getByRole("link").click();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(3);
    child.kill("SIGINT");
    expect((await end).code).toBe(130);
    await page.getByRole("link", { name: "Open the saved run" }).click();
    await page.getByText("The run was interrupted after").waitFor();
  });

  test("a job that was started from the page can be watched, and a refused request for its cache shows the error", async () => {
    const page = await visit(`${url}#/start`);
    const refusal = { status: 422, json: { error: "its events are unreadable" } };
    await page.route("**/moment?*", (route) => route.fulfill(refusal));
    const job = { trace: "example", target: "sim", evictions: [join(mine, "slow.ts")], blocks: ["300"], events: true };
    await client.start(job);
    await page.getByRole("region", { name: "Jobs" }).getByRole("link", { name: "live" }).click();
    await page.getByRole("heading", { name: /^example · hash-table · / }).waitFor();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(3);
    const error = page.getByText("its events are unreadable");
    await error.waitFor();
    writeFileSync(ready, "");
    await page.getByRole("link", { name: "Open the saved run" }).waitFor();
    await error.waitFor({ state: "hidden" });
  });

  test("a hidden page receives no updates until it is visible again", async () => {
    const child = begin(slow.concat("--live", "--no-save"));
    const end = ended(child);
    const page = await visit(`${url}#/runs`);
    await activeRuns(page).getByRole("link").click();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(3);
    const setHidden = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await setHidden(true);
    const before = await number(page, "Requests done");
    await sleep(1200);
    expect(await number(page, "Requests done")).toBe(before);
    await setHidden(false);
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(before);
    await page.getByText("The run has ended and was not saved.").waitFor();
    expect((await end).code).toBe(0);
  });

  test.each([
    { colorScheme: "light", viewport: { width: 1280, height: 900 } },
    { colorScheme: "dark", viewport: { width: 390, height: 800 } },
  ] as const)("axe finds no serious accessibility violation in a live view: %o", async (options) => {
    const child = begin(slow.concat("--live", "--no-save"));
    const end = ended(child);
    const page = await visit(url, options);
    await activeRuns(page).getByRole("link").waitFor();
    expect(await violations(page)).toEqual([]);
    await activeRuns(page).getByRole("link").click();
    await eventually(() => number(page, "Requests done")).toBeGreaterThan(3);
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    child.kill("SIGINT");
    await end;
  });
});
