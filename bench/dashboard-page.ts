// Benchmark of the dashboard's page in chromium: first paint, frames while the scrubber moves, memory.

import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";

/** A measurement with its unit; `atMost`: its limit. */
export interface PageMeasurement {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly atMost?: number;
}

/** Limits of the first paint over 200 and over 10,000 runs. */
const mostPaintMs = 300;
const mostPaintOfManyMs = 1000;
const mostFrameMs = 50;
/** Limit of the 95th percentile of frame times: 60 frames per second. */
const mostFrameMsP95 = 17;
/** Number of small moves of each scrubber. */
const moves = 240;

const launch = () =>
  chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens the views of a list of runs in new pages. `what`: the number of runs. */
export async function measureList(url: string, what: string): Promise<PageMeasurement[]> {
  const browser = await launch();
  try {
    return [
      ...(await opened(browser, `${url}#/runs`, `list of ${what}`, "tbody tr", mostPaintOfManyMs)),
      ...(await opened(browser, `${url}#/answer`, `answer of ${what}`, "table", mostPaintOfManyMs)),
      ...(await opened(browser, `${url}#/compare`, `comparison of ${what}`, "figure path", mostPaintOfManyMs)),
    ];
  } finally {
    await browser.close();
  }
}

/** Opens every view in a new page. `id`: a run with its events; `other`: another one of the same trace. */
export async function measurePage(url: string, id: string, other: string): Promise<PageMeasurement[]> {
  const browser = await launch();
  try {
    return [
      ...(await opened(browser, `${url}#/runs`, "list of runs", "tbody tr")),
      ...(await opened(browser, `${url}#/run?id=${id}`, "a run", "svg.series path")),
      ...(await opened(browser, `${url}#/travel?id=${id}&event=500000`, "its events", ".readout dd")),
      ...(await brushing(browser, `${url}#/run?id=${id}`)),
      ...(await scrubbing(browser, `${url}#/travel?id=${id}`, "scrubbing")),
      ...(await scrubbing(browser, `${url}#/travel?id=${id}&with=${other}`, "scrubbing a pair")),
    ];
  } finally {
    await browser.close();
  }
}

async function visit(browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1400 }, locale: "en-GB" });
  await page.goto(url);
  return page;
}

/** Time until the first paint, and until the frame after the selected element exists. */
async function opened(
  browser: Browser,
  url: string,
  what: string,
  selector: string,
  atMost = mostPaintMs,
): Promise<PageMeasurement[]> {
  const page = await visit(browser, url);
  await page.locator(selector).first().waitFor({ state: "attached" });
  const [first, drawn] = await page.evaluate<[number, number]>(
    `new Promise((resolve) => requestAnimationFrame(() => resolve([
       performance.getEntriesByName("first-contentful-paint")[0].startTime, performance.now()])))`,
  );
  await page.context().close();
  return [
    { name: `first paint, ${what}`, value: first, unit: "ms", atMost },
    { name: `drawn, ${what}`, value: drawn, unit: "ms" },
  ];
}

/** Measures frames with animation-frame callbacks, and the longest tasks of the main thread with a browser trace. */
async function traced(
  browser: Browser,
  page: Page,
  what: string,
  act: () => Promise<void>,
): Promise<PageMeasurement[]> {
  await page.evaluate(
    `window.frames_ = []; window.isOn = true; requestAnimationFrame(function next(now) {
       window.frames_.push(now); if (window.isOn) requestAnimationFrame(next); }); undefined`,
  );
  await browser.startTracing(page, {
    categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"],
  });
  await act();
  const trace = JSON.parse((await browser.stopTracing()).toString());
  const times = await page.evaluate<number[]>("window.isOn = false, window.frames_");
  const frames = times.slice(1).map((time, i) => time - times[i]);
  const tasks = mainThreadTasks(trace.traceEvents);
  const longest = (of: (task: TraceEvent) => number) => Math.max(0, ...tasks.map(of)) / 1000;
  return [
    { name: `${what}: frames`, value: frames.length, unit: "" },
    { name: `${what}: frame p50`, value: quantile(frames, 0.5), unit: "ms", atMost: mostFrameMs },
    { name: `${what}: frame p95`, value: quantile(frames, 0.95), unit: "ms", atMost: mostFrameMsP95 },
    { name: `${what}: frame max`, value: quantile(frames, 1), unit: "ms", atMost: mostFrameMs },
    { name: `${what}: longest task`, value: longest(({ dur = 0 }) => dur), unit: "ms", atMost: mostFrameMs },
    {
      name: `${what}: longest task, processor`,
      value: longest(({ tdur = 0 }) => tdur),
      unit: "ms",
      atMost: mostFrameMs,
    },
  ];
}

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly dur?: number;
  /** Processor time of the thread, without the time in which it was not scheduled. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** The tasks of the page's main thread. */
function mainThreadTasks(events: readonly TraceEvent[]): readonly TraceEvent[] {
  const main = new Set(
    events
      .filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  return events.filter(({ name, ph, pid, tid }) => ph === "X" && /RunTask$/.test(name) && main.has(`${pid} ${tid}`));
}

function quantile(values: readonly number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(at * sorted.length))] ?? 0;
}

/** Moves the scrubber over the whole log, then slowly back over a tenth of it. */
async function scrubbing(browser: Browser, url: string, what: string): Promise<PageMeasurement[]> {
  const page = await visit(browser, url);
  await page.locator(".readout dd").first().waitFor();
  const { x, y, width, height } = (await page.getByRole("slider").first().boundingBox())!;
  const middle = y + height / 2;
  await page.evaluate(lagProbe);
  const figures = await traced(browser, page, what, async () => {
    await page.mouse.move(x + 2, middle);
    await page.mouse.down();
    for (let i = 0; i <= moves; i++) await page.mouse.move(x + (i / moves) * (width - 2), middle);
    for (let i = moves; i >= 0; i--) await page.mouse.move(x + (width - 2) * (0.4 + (0.1 * i) / moves), middle);
    await page.mouse.up();
  });
  await page.waitForTimeout(300);
  const lags = await page.evaluate<number[]>("window.lags");
  const session = await page.context().newCDPSession(page);
  return [
    ...figures,
    { name: `${what}: moments shown`, value: lags.length, unit: "" },
    { name: `${what}: from pointer to moment, p50`, value: quantile(lags, 0.5), unit: "ms" },
    { name: `${what}: from pointer to moment, p95`, value: quantile(lags, 0.95), unit: "ms" },
    { name: `${what}: heap afterwards`, value: await heapMiB(session), unit: "MiB" },
  ];
}

/** By displayed moment: time since the scrubber was moved to it. */
const lagProbe = `
  window.lags = [];
  const at = new Map();
  const slider = document.querySelector(".slider");
  new MutationObserver(() => at.set(Number(slider.getAttribute("aria-valuenow")), performance.now()))
    .observe(slider, { attributes: true, attributeFilter: ["aria-valuenow"] });
  new MutationObserver(() => {
    const event = Number(document.querySelector(".readout dd").textContent.split(" of ")[0].replace(/\\D/g, ""));
    if (at.has(event)) window.lags.push(performance.now() - at.get(event));
    at.delete(event);
  }).observe(document.querySelector(".readout"), { childList: true });
  undefined`;

/** Selects spans of the series by brushing; each is loaded at a finer resolution. */
async function brushing(browser: Browser, url: string): Promise<PageMeasurement[]> {
  const page = await visit(browser, url);
  const series = page.locator("svg.series");
  await series.locator("path").first().waitFor({ state: "attached" });
  await page.waitForTimeout(500);
  const { x, y, width } = (await series.boundingBox())!;
  const figures = await traced(browser, page, "brushing", async () => {
    for (const [from, to] of [
      [0.1, 0.9],
      [0.2, 0.7],
      [0.3, 0.6],
    ]) {
      await page.mouse.move(x + from * width, y + 120);
      await page.mouse.down();
      for (let i = 0; i <= moves / 3; i++)
        await page.mouse.move(x + (from + ((to - from) * i) / (moves / 3)) * width, y + 120);
      await page.mouse.up();
      for (let i = 0; i <= moves / 3; i++) await page.mouse.move(x + (0.1 + (0.8 * i) / (moves / 3)) * width, y + 140);
    }
  });
  const session = await page.context().newCDPSession(page);
  return [...figures, { name: "brushing: heap afterwards", value: await heapMiB(session), unit: "MiB" }];
}

async function heapMiB(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return usedSize / 2 ** 20;
}
