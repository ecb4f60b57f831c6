import { cpSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import type { MomentData, PrefixData } from "../../viz/api.ts";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { type Client, dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, visit } from "./browser.ts";

interface LoggedRow {
  readonly event: string;
  readonly request: number;
  readonly block: number;
  readonly key: number;
  readonly value: number;
}

const folder = newFolder();
const runs = join(folder, "runs");
const logs = new Map<string, readonly LoggedRow[]>();
let client: Client;
let url = "";

async function kvlab(...args: string[]): Promise<void> {
  const { code, stderr } = await ended(start(folder, args));
  if (code !== 0) throw new Error(stderr);
}

async function logOf(id: string): Promise<readonly LoggedRow[]> {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(join(runs, id, "events.parquet")) });
  return rows.map(({ event, request, block, key, value }) => ({
    event: String(event),
    ...{ request: Number(request), block: Number(block), key: Number(key), value: Number(value) },
  }));
}

/** An independent computation of block states, steps and running requests after the first `count` events. */
function countsAfter(log: readonly LoggedRow[], count: number, blocks: number): Record<string, string> {
  const states = new Map<number, string>();
  const running = new Set<number>();
  let steps = 0;
  const stateAfter: Record<string, string> = {
    allocate: "private",
    copy: "private",
    publish: "referenced",
    hit: "referenced",
  };
  for (const { event, request, block, value } of log.slice(0, count)) {
    if (event in stateAfter) states.set(block, stateAfter[event]);
    else if (event === "release") states.set(block, value === 1 ? "idle" : "free");
    else if (event === "evict") states.set(block, "free");
    else if (event === "step") steps++;
    else if (event === "admit") running.add(request);
    else if (event === "finish" || event === "preempt") running.delete(request);
    else expect(event).toBe("miss");
  }
  const of = (name: string) => [...states.values()].filter((each) => each === name).length;
  const used = of("private") + of("referenced") + of("idle");
  const numbers = {
    Steps: steps,
    "Private blocks": of("private"),
    "Cached, referenced": of("referenced"),
    "Cached, idle": of("idle"),
  };
  return {
    ...Object.fromEntries(
      Object.entries({ ...numbers, "Free blocks": blocks - used }).map(([k, v]) => [k, grouped(v)]),
    ),
    "Running requests":
      running.size === 0
        ? "none"
        : `${running.size}: ${[...running]
            .slice(0, 3)
            .map((r) => `#${r}`)
            .join(", ")}${running.size > 3 ? " …" : ""}`,
  };
}

const grouped = (value: number) => value.toLocaleString("en");

/** The names and values at the top of the view. */
async function factsOf(page: Page): Promise<Record<string, string>> {
  const [names, values] = await Promise.all(
    ["dt", "dd"].map((tag) => page.locator(`.readout ${tag}`).allTextContents()),
  );
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

const eventOf = async (page: Page) => Number((await factsOf(page))["Event"]?.split(" of ")[0].replaceAll(",", ""));
const isAt = (page: Page, event: number) => expect.poll(() => eventOf(page)).toBe(event);

async function goTo(page: Page, event: number): Promise<void> {
  await page.getByLabel("Event", { exact: true }).and(page.locator("input")).fill(String(event));
  await page.keyboard.press("Enter");
  await isAt(page, event);
}

/** The first event of a kind at or after `from`. */
const next = (log: readonly LoggedRow[], kind: string, from: number) =>
  log.findIndex(({ event }, at) => at >= from && event === kind);

describe.runIf(hasBrowser)("time travel in a browser", () => {
  beforeAll(async () => {
    const cache = ["replay", "example", "--limit", "150", "--blocks", "200", "--events"];
    const sim = ["replay", "example", "--limit", "120", "--target", "sim", "--preset", "vllm", "--blocks", "300"];
    await Promise.all([
      kvlab(...cache, "--eviction", "lru", "--out", "made/lru"),
      kvlab(...cache, "--eviction", "fifo", "--out", "made/fifo"),
      kvlab(...sim, "--rate", "30", "--events", "--out", "made/sim"),
      kvlab("replay", "example", "--limit", "20", "--out", "made/no-events"),
    ]);
    renameSync(join(folder, "made"), runs);
    cpSync(join(runs, "lru"), join(runs, "lru-again"), { recursive: true });
    for (const id of ["lru", "fifo", "sim"]) logs.set(id, await logOf(id));
    client = await dashboardOver(runs, { page: await bundlePage() });
    url = client.dashboard.url;
  }, 120_000);

  test("at every event the page shows the counts of the log", async () => {
    for (const [id, blocks] of [
      ["lru", 200],
      ["sim", 300],
    ] as const) {
      const log = logs.get(id)!;
      const page = await visit(`${url}#/travel?id=${id}`);
      await isAt(
        page,
        log.findIndex(({ event }) => event === "evict"),
      );
      for (const share of [0, 0.1, 0.5, 0.77, 1]) {
        const event = Math.round(share * log.length);
        await goTo(page, event);
        expect(await factsOf(page)).toMatchObject(countsAfter(log, event, blocks));
      }
    }
  });

  test("buttons go to the next and the previous event of a kind, which is shown with its reason", async () => {
    const log = logs.get("sim")!;
    const page = await visit(`${url}#/travel?id=sim&event=5000`);
    await isAt(page, 5000);
    const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
    await press("Next event");
    await isAt(page, 5001);
    await press("Previous event");
    await isAt(page, 5000);
    for (const [kind, label] of [
      ["evict", "eviction"],
      ["admit", "admission"],
      ["step", "step"],
    ]) {
      await goTo(page, 5000);
      const first = next(log, kind, 5001);
      await press(`Next ${label}`);
      await isAt(page, first);
      await press(`Next ${label}`);
      await isAt(page, next(log, kind, first + 1));
      await press(`Previous ${label}`);
      await isAt(page, first);
    }
    await goTo(page, next(log, "evict", 5001));
    const { block, request } = log[next(log, "evict", 5001)];
    expect(await page.locator(".next").textContent()).toMatch(
      new RegExp(`request ${request} evicts .* block ${block}`),
    );
    expect(await page.locator(".next .why").textContent()).toMatch(/evictable/);
    expect(await page.getByRole("button", { name: "Next preemption" }).isDisabled()).toBe(
      !log.some(({ event }) => event === "preempt"),
    );
  });

  test("keys step by an event, by a step of the model, go to the ends, and play", async () => {
    const log = logs.get("sim")!;
    const page = await visit(`${url}#/travel?id=sim&event=300&speed=1000`);
    await isAt(page, 300);
    await page.keyboard.press("ArrowRight");
    await isAt(page, 301);
    await expect.poll(() => page.locator("#announcement").textContent()).toContain("Event 301. Next: ");
    await page.keyboard.press("ArrowLeft");
    await isAt(page, 300);
    await page.keyboard.press("Shift+ArrowRight");
    await isAt(page, next(log, "step", 301));
    await page.getByRole("slider").focus();
    await page.keyboard.press("PageDown");
    await isAt(page, next(log, "step", 301) + Math.round(log.length / 100));
    await page.keyboard.press("End");
    await isAt(page, log.length);
    expect(await page.locator(".next").textContent()).toBe("End of the log.");
    await page.keyboard.press("Home");
    await isAt(page, 0);
    await page.keyboard.press("Space");
    await expect.poll(() => eventOf(page)).toBeGreaterThan(100);
    await page.keyboard.press("Space");
    await page.getByRole("button", { name: "Play", exact: true }).waitFor();
  });

  test("Page Up and Down, Home, End and Space act on the slider, its buttons and the figures, and scroll the page elsewhere", async () => {
    const { length } = logs.get("sim")!;
    const page = await visit(`${url}#/travel?id=sim&event=300`, { viewport: { width: 1280, height: 400 } });
    await isAt(page, 300);
    const scrolled = () => page.evaluate("scrollY");
    for (const key of ["PageDown", "Space", "End"]) {
      await page.evaluate("scrollTo(0, 0)");
      await page.keyboard.press(key);
      await expect.poll(scrolled).toBeGreaterThan(0);
    }
    await page.keyboard.press("Home");
    await expect.poll(scrolled).toBe(0);
    await page.getByRole("link", { name: "run summary" }).focus();
    await page.keyboard.press("PageDown");
    await expect.poll(scrolled).toBeGreaterThan(0);
    await isAt(page, 300);
    await page.getByRole("button", { name: "Next event", exact: true }).focus();
    await page.keyboard.press("End");
    await isAt(page, length);
    await page.getByRole("img", { name: /^Blocks: / }).focus();
    await page.keyboard.press("Home");
    await isAt(page, 0);
  });

  test("dragging has one request in flight and ends at the event of the slider", async () => {
    const { length } = logs.get("lru")!;
    const page = await visit(`${url}#/travel?id=lru&event=0`);
    await isAt(page, 0);
    let [now, most, all] = [0, 0, 0];
    page.on("request", (request) => {
      if (!request.url().includes("/moment")) return;
      all++;
      most = Math.max(most, ++now);
    });
    page.on("requestfinished", (request) => {
      if (request.url().includes("/moment")) now--;
    });
    const slider = page.getByRole("slider");
    const { x, y, width } = (await slider.boundingBox())!;
    await page.mouse.move(x + 1, y + 30);
    await page.mouse.down();
    await page.mouse.move(x + width / 2, y + 30, { steps: 40 });
    await page.mouse.up();
    const at = Number(await slider.getAttribute("aria-valuenow"));
    expect(Math.abs(at - length / 2)).toBeLessThan(length / 100);
    await isAt(page, at);
    expect(most).toBe(1);
    expect(all).toBeLessThan(42);
  });

  test("a reload restores the event and the colours; a click on an event in the list goes to it", async () => {
    const page = await visit(`${url}#/travel?id=lru&event=2000`);
    await isAt(page, 2000);
    await page.getByRole("button", { name: "Owner" }).click();
    await page.locator(".events li.after button").nth(2).click();
    await isAt(page, 2003);
    await expect.poll(() => page.url()).toMatch(/event=2003.*colour=owner/);
    await page.reload();
    await isAt(page, 2003);
    expect(await page.getByRole("button", { name: "Owner" }).getAttribute("aria-pressed")).toBe("true");
  });

  test("the keyboard reads prefixes and blocks, and zooms", async () => {
    const page = await visit(`${url}#/travel?id=lru&event=4000`);
    await isAt(page, 4000);
    const { tree, blocks } = await client.get<MomentData>("/api/runs/lru/moment?event=4000");
    const icicle = page.getByRole("img", { name: /^Cached prefixes: / });
    const said = () => page.locator("#announcement").textContent();
    await icicle.focus();
    await page.keyboard.press("ArrowRight");
    const end = tree.fromToken[0] + tree.tokens[0];
    await expect.poll(said).toContain(`cached by request #${tree.owner[0]}`);
    expect(await said()).toContain(
      `tokens ${grouped(tree.fromToken[0])} to ${grouped(end)}, from block ${tree.block[0]}`,
    );
    await page.keyboard.press("Enter");
    const whole = page.getByRole("button", { name: "Whole cache" });
    await whole.waitFor();
    await page.keyboard.press("Escape");
    await whole.waitFor({ state: "hidden" });
    await isAt(page, 4000);
    await page.getByRole("img", { name: /^Blocks: 200/ }).focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
    const life = Buffer.from(blocks.life, "base64")[3];
    const states = ["free", "private", "cached, referenced", "cached, idle"];
    await expect.poll(said).toMatch(new RegExp(`^block 3, ${states[life]}`));
  });

  test("two runs are shown at the same event, and diverge at the first event that differs", async () => {
    const [a, b] = [logs.get("lru")!, logs.get("fifo")!];
    const first = a.findIndex((row, at) => JSON.stringify(row) !== JSON.stringify(b[at]));
    const page = await visit(`${url}#/compare?runs=lru,fifo&a=lru&b=fifo`);
    await page.getByRole("link", { name: "Find the first divergence" }).click();
    await page.getByText(`The logs diverge after ${grouped(first)} equal events.`).waitFor();
    await page.getByRole("button", { name: "Go to the first divergence" }).click();
    await isAt(page, first);
    const sides = page.locator(".cache-state");
    for (const [i, log] of [a, b].entries()) {
      const side = sides.nth(i);
      expect(await side.locator(".readout dd").first().textContent()).toBe(
        `${grouped(first)} of ${grouped(log.length)}`,
      );
      expect(await side.locator(".next").textContent()).toContain(`block ${log[first].block}`);
    }
    await page.goto(`${url}#/runs`);
    await page.goto(`${url}#/travel?id=lru&with=fifo`);
    await isAt(page, first);
    await page.goto(`${url}#/travel?id=lru&with=lru-again`);
    await page.getByText(`The logs are identical: all ${grouped(a.length)} events are equal.`).waitFor();
    expect(await page.getByRole("button", { name: "Go to the first divergence" }).isHidden()).toBe(true);
  });

  test("a run shows the prefixes with the most hit tokens and unused occupancy, each with a link to the event that cached it", async () => {
    const { valuable, wasted } = await client.get<PrefixData>("/api/runs/lru/prefixes");
    const page = await visit(`${url}#/run?id=lru`);
    await page.getByRole("heading", { name: "Prefixes by hit tokens" }).scrollIntoViewIfNeeded();
    for (const [name, rows] of [
      ["Prefixes with the most hit tokens", valuable],
      ["Prefixes with the most unused occupancy", wasted],
    ] as const) {
      const links = page.getByRole("region", { name }).getByRole("link");
      await expect.poll(() => links.allTextContents()).toEqual(rows.map(({ request }) => `#${request}`));
    }
    await page.getByRole("region", { name: "Prefixes with the most hit tokens" }).getByRole("link").first().click();
    await isAt(page, valuable[0].event);
    const published = logs.get("lru")![valuable[0].event];
    expect(published).toMatchObject({ event: "publish", request: valuable[0].request });
    await page.goto(`${url}#/run?id=no-events`);
    await page.getByText("Runs that are saved with --events show").waitFor();
    await page.goto(`${url}#/travel?id=no-events`);
    await page.getByRole("alert").filter({ hasText: "events" }).waitFor();
  });

  test("figures on a canvas are saved as SVG with the same content", async () => {
    const page = await visit(`${url}#/travel?id=lru&event=4000&colour=life`);
    await isAt(page, 4000);
    const saved = async (name: string) => {
      const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
      return readFileSync(await file.path());
    };
    const blocks = (await saved("Blocks: save as SVG")).toString();
    expect(blocks.match(/<rect/g)!.length).toBeGreaterThanOrEqual(200);
    await page.getByRole("button", { name: "Owner" }).click();
    expect((await saved("Blocks: save as SVG")).toString()).toContain("owning or caching request (colours repeat)");
    expect((await saved("Cached prefixes: save as SVG")).toString()).toContain("next event</text>");
    expect((await saved("Cached prefixes: save as PNG")).subarray(1, 4).toString()).toBe("PNG");
    expect((await saved("Event log: save as SVG")).toString()).toContain("evicted</tspan>");
  });
});
