// Takes the pictures of docs/dashboard.md: `npx tsx scripts/dashboard-pictures.ts` runs what they show, and needs chromium.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { findBrowser } from "./browser.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "kvlab-pictures-"));
const program = ["--import", import.meta.resolve("tsx"), join(root, "cli/main.ts")];
const kvlab = (...args: string[]) =>
  execFileSync(process.execPath, [...program, ...args], { cwd: folder, stdio: "pipe" });

/** The chat that all of these runs are of. */
const trace = "traces/chat.jsonl";
const runs = "runs";
/** Two that differ in their eviction alone. */
const pair = "pair";

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
  mkdirSync(join(folder, runs, "copied-in-part"));
}

/** Starts the dashboard and returns its address. */
async function serve(saved: string): Promise<{ readonly url: string; stop(): void }> {
  const words = ["dashboard", saved, "--port", "0", "--traces", "traces"];
  const child = spawn(process.execPath, [...program, ...words], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
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
  /** What is done before it is taken. */
  act?(page: Page): Promise<void>;
  /** A part of the page, not what is seen of it. */
  readonly part?: string;
}

async function take(
  browser: Browser,
  url: string,
  { name, view, isDark, width = 1280, height, act, part }: Picture,
): Promise<void> {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: isDark ? "dark" : "light",
    reducedMotion: "reduce",
    locale: "en-GB",
  });
  await page.goto(`${url}#/${view}`);
  if (view.startsWith("travel")) await page.locator(".readout dd").first().waitFor();
  await act?.(page);
  await page.waitForTimeout(1500);
  await (part ? page.locator(part) : page).screenshot({ path: join(root, "docs/dashboard", `${name}.png`) });
  await page.close();
}

async function startComparison(page: Page): Promise<void> {
  await page.getByLabel("Trace").selectOption({ index: 1 });
  for (const policy of ["lru", "slru"]) await page.getByLabel(policy, { exact: true }).check();
  await page.getByLabel("Blocks").fill("5%, 20%");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("cell", { name: "done" }).waitFor();
}

/** Where an eviction is next, with the pointer on a prefix. */
async function pointAtPrefix(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Next eviction" }).click();
  await page.waitForTimeout(500);
  const { x, y, width } = (await page.getByRole("img", { name: /^Cached prefixes/ }).boundingBox())!;
  await page.mouse.move(x + width * 0.46, y + 60);
}

const toFirstDifference = (page: Page) => page.getByRole("button", { name: "Go to the first difference" }).click();

async function scrollToPrefixes(page: Page): Promise<void> {
  await page.getByRole("heading", { name: "Which prefixes" }).scrollIntoViewIfNeeded();
  await page.getByRole("region", { name: "The most wasted" }).waitFor();
}

/** A real engine, some seconds after it has begun. */
async function watchEngine(page: Page): Promise<void> {
  const engine = ["--target", "cpu", "--model", "random:tiny", "--threads", "1", "--pace", "real", "--rate", "4"];
  const words = ["replay", trace, "--limit", "200", "--blocks", "600", ...engine, "--events", "--live"];
  const child = spawn(process.execPath, [...program, ...words], { cwd: folder, stdio: "ignore" });
  page.once("close", () => child.kill("SIGINT"));
  await page.getByRole("region", { name: "Under way" }).getByRole("link").click();
  await page.waitForTimeout(25_000);
}

const browserPath = findBrowser(process.env);
if (!browserPath) throw new Error("there is no chromium or chrome in PATH, expected one, or CHROMIUM=/path/to/it");
makeRuns();
mkdirSync(join(root, "docs/dashboard"), { recursive: true });
const { url, stop } = await serve(runs);
const both = await serve(pair);
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const inTime = "compare?runs=vllm,sglang,tgi&base=vllm&a=vllm&b=sglang&pair=ttftMs";
const pictures: Picture[] = [
  { name: "runs", view: "runs?sort=-token", height: 800 },
  { name: "compare-capacity", view: "compare?trace=chat", height: 1000 },
  { name: "compare-time", view: inTime, height: 1660 },
  { name: "run", view: "run?id=vllm", height: 1720 },
  { name: "prefixes", view: "run?id=vllm", height: 1000, act: scrollToPrefixes, part: "[aria-label=Prefixes]" },
  { name: "travel", view: "travel?id=vllm&event=600000", height: 1520, act: pointAtPrefix },
  { name: "travel-dark", view: "travel?id=sglang&event=900000&colour=owner", isDark: true, height: 1520 },
  { name: "travel-narrow", view: "travel?id=vllm&event=600000&colour=hits", width: 390, height: 2250 },
  { name: "live", view: "runs", height: 1900, act: watchEngine },
  { name: "start", view: "start", height: 1030, act: startComparison },
  { name: "run-dark", view: "run?id=vllm", isDark: true, height: 1280 },
  { name: "run-narrow", view: "run?id=vllm", width: 390, height: 1500 },
];
for (const picture of pictures) await take(browser, url, picture);
await take(browser, both.url, {
  name: "travel-pair",
  view: "travel?id=lru&with=fifo",
  height: 2080,
  act: toFirstDifference,
});
await browser.close();
stop();
both.stop();
rmSync(folder, { recursive: true });
