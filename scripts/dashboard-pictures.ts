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

function makeRuns(): void {
  mkdirSync(join(folder, "traces"));
  kvlab("trace", "generate", "chat", "--requests", "4000", "--out", trace);
  const sizes = ["--blocks", "1%,2%,5%,10%,25%,50%"];
  kvlab("compare", trace, "--eviction", "lru,fifo,lfu,slru,random", ...sizes, "--out", runs);
  const busy = ["--target", "sim", "--model", "llama-3.1-8b", "--gpu", "l40s", "--rate", "2.5", "--capacity", "4GiB"];
  for (const policy of ["vllm", "sglang", "tgi"]) {
    kvlab("replay", trace, ...busy, "--policy", policy, "--out", policy);
    renameSync(join(folder, policy), join(folder, runs, policy));
  }
  mkdirSync(join(folder, runs, "copied-in-part"));
}

/** Starts the dashboard and returns its address. */
async function serve(): Promise<{ readonly url: string; stop(): void }> {
  const words = ["dashboard", runs, "--port", "0", "--traces", "traces"];
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
}

async function take(
  browser: Browser,
  url: string,
  { name, view, isDark, width = 1280, height }: Picture,
): Promise<void> {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: isDark ? "dark" : "light",
    reducedMotion: "reduce",
    locale: "en-GB",
  });
  await page.goto(`${url}#/${view}`);
  if (view === "start") await startComparison(page);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: join(root, "docs/dashboard", `${name}.png`) });
  await page.close();
}

async function startComparison(page: Page): Promise<void> {
  await page.getByLabel("Trace").selectOption({ index: 1 });
  for (const policy of ["lru", "slru"]) await page.getByLabel(policy, { exact: true }).check();
  await page.getByLabel("Blocks").fill("5%, 20%");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("cell", { name: "done" }).waitFor();
}

const browserPath = findBrowser(process.env);
if (!browserPath) throw new Error("there is no chromium or chrome in PATH, expected one, or CHROMIUM=/path/to/it");
makeRuns();
mkdirSync(join(root, "docs/dashboard"), { recursive: true });
const { url, stop } = await serve();
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const inTime = "compare?runs=vllm,sglang,tgi&base=vllm&a=vllm&b=sglang&pair=ttftMs";
const pictures: Picture[] = [
  { name: "runs", view: "runs?sort=-token", height: 800 },
  { name: "compare-capacity", view: "compare?trace=chat", height: 1000 },
  { name: "compare-time", view: inTime, height: 1560 },
  { name: "run", view: "run?id=vllm", height: 1720 },
  { name: "start", view: "start", height: 640 },
  { name: "run-dark", view: "run?id=vllm", isDark: true, height: 1280 },
  { name: "run-narrow", view: "run?id=vllm", width: 390, height: 1500 },
];
for (const picture of pictures) await take(browser, url, picture);
await browser.close();
stop();
rmSync(folder, { recursive: true });
