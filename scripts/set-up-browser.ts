// Sees to it that there is a browser for the dashboard's tests, before `npm test`: Debian's chromium is installed where that
// can be done without asking. Silent where there is one; where there can be none, those tests are skipped, but not in CI.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { findBrowser } from "./browser.ts";

const packages = ["chromium", "fonts-dejavu-core"];
const isCi = Boolean(process.env["CI"]);
/** Networks of test machines have their moments. */
const tries = isCi ? 3 : 1;
const pauseMs = 10_000;
const mostMs = 600_000;

const say = (text: string) => process.stderr.write(`${text}\n`);

function osId(): string | undefined {
  try {
    return /^ID="?(\w+)"?$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

/** What comes before a command so that it runs as root; undefined if nobody here may. */
function asRoot(): readonly string[] | undefined {
  if (process.getuid?.() === 0) return [];
  return spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status === 0 ? ["sudo", "-n"] : undefined;
}

/** Whether it went well. */
function apt(root: readonly string[], ...words: string[]): boolean {
  const options = ["-qq", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=20", "-o", "Dpkg::Use-Pty=0"];
  const [program, ...args] = [...root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...options, ...words];
  return spawnSync(program, args, { stdio: ["ignore", "ignore", "inherit"], timeout: mostMs }).status === 0;
}

/** Whether it is there then. */
async function install(root: readonly string[]): Promise<boolean> {
  say(`The dashboard's tests need chromium, which is not here: apt-get install ${packages.join(" ")}`);
  for (let attempt = 1; attempt <= tries; attempt++) {
    if (attempt > 1) await sleep(pauseMs);
    apt(root, "update");
    if (apt(root, "install", "-y", "--no-install-recommends", ...packages) && findBrowser(process.env)) return true;
  }
  return false;
}

async function setUp(): Promise<number> {
  const { CHROMIUM } = process.env;
  if (CHROMIUM === "none" || findBrowser(process.env)) return 0;
  const root = osId() === "debian" ? asRoot() : undefined;
  if (root && (await install(root))) return 0;
  const hint = "install chromium or chrome, or name one with CHROMIUM=/path/to/it";
  say(`${isCi ? "There is no browser for" : "Without a browser go"} the tests of the dashboard's page: ${hint}`);
  return isCi ? 1 : 0;
}

try {
  process.exitCode = await setUp();
} catch (error) {
  say((error as Error).message);
  process.exitCode = 1;
}
