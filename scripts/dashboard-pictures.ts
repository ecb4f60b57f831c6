// Makes the screenshots of docs/dashboard.md: `npx tsx scripts/dashboard-pictures.ts [NAME…]` creates the runs and requires chromium.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { defaultBackend } from "../engine/backends.ts";
import { findBrowser } from "./browser.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "kvlab-pictures-"));
const program = ["--import", import.meta.resolve("tsx"), join(root, "cli/main.ts")];
const kvlab = (...args: string[]) =>
  execFileSync(process.execPath, [...program, ...args], { cwd: folder, stdio: "pipe" });

/** The trace of all runs. */
const trace = "traces/chat.jsonl";
const runs = "runs";
/** Two runs that differ only in the eviction policy. */
const pair = "pair";
/** Three systems at several rates, and a cluster. */
const service = "service";

function makeRuns(): void {
  mkdirSync(join(folder, "traces"));
  kvlab("trace", "generate", "chat", "--requests", "4000", "--out", trace);
  const sizes = ["--blocks", "1%,2%,5%,10%,25%,50%"];
  kvlab("compare", trace, "--eviction", "lru,fifo,lfu,slru,random", ...sizes, "--out", runs);
  const busy = ["--target", "sim", "--model", "llama-3.1-8b", "--gpu", "l40s", "--rate", "2.5", "--capacity", "4GiB"];
  for (const policy of ["vllm", "sglang", "tgi"]) {
    kvlab("replay", trace, ...busy, "--preset", policy, "--events", "--out", policy);
    renameSync(join(folder, policy), join(folder, runs, policy));
  }
  const few = ["--limit", "1000", "--blocks", "2000", "--events"];
  for (const eviction of ["lru", "fifo"])
    kvlab("replay", trace, ...few, "--eviction", eviction, "--out", `${pair}/${eviction}`);
  const offered = [
    "--target",
    "sim",
    "--gpu",
    "l40s",
    "--capacity",
    "4GiB",
    "--limit",
    "1500",
    "--slo",
    "ttft=1s,tpot=60ms",
  ];
  kvlab("compare", trace, ...offered, "--preset", "vllm,sglang,tgi", "--rate", "1,2,3,4,6", "--out", service);
  const routed = ["--preset", "vllm", "--rate", "8", "--replicas", "3", "--router", "prefix-affinity"];
  kvlab("replay", trace, ...offered, ...routed, "--out", `${service}/cluster`);
  mkdirSync(join(folder, runs, "copied-in-part"));
}

/** Starts the dashboard and returns its address. */
async function serve(saved: string): Promise<{ readonly url: string; stop(): void }> {
  const args = ["dashboard", saved, "--port", "0", "--traces", "traces"];
  const child = spawn(process.execPath, [...program, ...args], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise<string>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => resolve(text.split(" ")[0]));
  });
  return { url, stop: () => child.kill("SIGINT") };
}

interface Picture {
  readonly name: string;
  readonly view: string;
  readonly isDark?: boolean;
  readonly width?: number;
  readonly height: number;
  /** Runs before the screenshot. */
  act?(page: Page): Promise<void>;
  /** Selector of the element to capture; otherwise the viewport. */
  readonly element?: string;
}

async function take(
  browser: Browser,
  url: string,
  { name, view, isDark, width = 1280, height, act, element }: Picture,
): Promise<void> {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: isDark ? "dark" : "light",
    reducedMotion: "reduce",
    locale: "en-GB",
  });
  await page.goto(`${url}#/${view}`);
  if (view.startsWith("travel")) await page.locator(".readout dd").first().waitFor();
  if (view.startsWith("request")) await page.getByText("Loading the request").waitFor({ state: "detached" });
  await act?.(page);
  await page.waitForTimeout(1500);
  await (element ? page.locator(element).first() : page).screenshot({
    path: join(root, "docs/dashboard", `${name}.png`),
  });
  await page.close();
}

async function startComparison(page: Page): Promise<void> {
  await page.getByLabel("Trace").selectOption({ index: 1 });
  for (const policy of ["lru", "slru"]) await page.getByLabel(policy, { exact: true }).check();
  await page.getByLabel("Cache size").fill("5%, 20%");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("cell", { name: "done" }).waitFor();
}

/** Selects an eviction and hovers over a prefix. */
async function pointAtPrefix(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Next eviction" }).click();
  await page.waitForTimeout(500);
  const { x, y, width } = (await page.getByRole("img", { name: /^Cached prefixes/ }).boundingBox())!;
  await page.mouse.move(x + width * 0.46, y + 60);
}

const goToDivergence = (page: Page) => page.getByRole("button", { name: "Go to the first divergence" }).click();

async function scrollToPrefixes(page: Page): Promise<void> {
  await page.getByRole("heading", { name: "Prefixes by hit tokens" }).scrollIntoViewIfNeeded();
  await page.getByRole("region", { name: "Prefixes with the most unused occupancy" }).waitFor();
}

/** Opens the live view of an engine run, 25 s after its start. */
async function watchEngine(page: Page): Promise<void> {
  const engine = [
    "--target",
    defaultBackend.name,
    "--model",
    "random:tiny",
    "--threads",
    "1",
    "--pace",
    "real",
    "--rate",
    "4",
  ];
  const args = ["replay", trace, "--limit", "200", "--blocks", "600", ...engine, "--events", "--live"];
  const child = spawn(process.execPath, [...program, ...args], { cwd: folder, stdio: "ignore" });
  page.once("close", () => child.kill("SIGINT"));
  await page.getByRole("region", { name: "Active runs" }).getByRole("link").click();
  await page.waitForTimeout(25_000);
}

const browserPath = findBrowser(process.env);
if (!browserPath) throw new Error("no chromium or chrome in PATH; set CHROMIUM=/path/to/it");
makeRuns();
mkdirSync(join(root, "docs/dashboard"), { recursive: true });
const { url, stop } = await serve(runs);
const pairServer = await serve(pair);
const serviceServer = await serve(service);
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const timedRuns = "compare?runs=vllm,sglang,tgi&base=vllm&a=vllm&b=sglang&pair=ttftMs";
const pictures: Picture[] = [
  { name: "answer", view: "answer?workload=chat,+4,000+requests,+cache", height: 1140 },
  { name: "runs", view: "runs?sort=-token", height: 800 },
  { name: "compare-capacity", view: "compare?workload=chat,+4,000+requests,+cache", height: 1420 },
  { name: "compare-time", view: timedRuns, height: 1660 },
  { name: "run", view: "run?id=vllm", height: 2560 },
  { name: "prefixes", view: "run?id=vllm", height: 1000, act: scrollToPrefixes, element: "[aria-label=Prefixes]" },
  { name: "travel", view: "travel?id=vllm&event=600000", height: 1520, act: pointAtPrefix },
  { name: "travel-dark", view: "travel?id=sglang&event=900000&colour=owner", isDark: true, height: 1520 },
  { name: "travel-narrow", view: "travel?id=vllm&event=600000&colour=hits", width: 390, height: 2250 },
  { name: "live", view: "runs", height: 2400, act: watchEngine },
  { name: "start", view: "start", height: 1030, act: startComparison },
  { name: "run-dark", view: "run?id=vllm", isDark: true, height: 1600 },
  { name: "run-narrow", view: "run?id=vllm", width: 390, height: 1500 },
];
/** The figure with any result by any setting. */
const manyRuns = "figure:has(figcaption .field:nth-child(4))";
const cacheRuns = "compare?workload=chat,+4,000+requests,+cache";
const simRuns = "compare?workload=chat,+1,500+requests,+sim";
const others: readonly (readonly [url: string, picture: Picture])[] = [
  [url, { name: "heat-map", view: `${cacheRuns}&figure=heat`, height: 1500, element: manyRuns }],
  [url, { name: "gain", view: `${cacheRuns}&figure=gain`, height: 1500, element: manyRuns }],
  [url, { name: "request", view: "request?id=vllm&with=sglang&request=2000", height: 1700 }],
  [serviceServer.url, { name: "rates", view: `${simRuns}&figure=rates`, height: 1500, element: manyRuns }],
  [
    serviceServer.url,
    { name: "replicas", view: "run?id=cluster", height: 1500, element: "figure:has(.replica-panels)" },
  ],
  [pairServer.url, { name: "travel-pair", view: "travel?id=lru&with=fifo", height: 2080, act: goToDivergence }],
];
const chosen = process.argv.slice(2);
for (const [at, picture] of [...pictures.map((each) => [url, each] as const), ...others])
  if (chosen.length === 0 || chosen.includes(picture.name)) await take(browser, at, picture);
await browser.close();
stop();
pairServer.stop();
serviceServer.stop();
rmSync(folder, { recursive: true });
