// Installs a browser for the dashboard's tests before `npm test`: Debian's chromium, if that is possible without a password.
// Prints nothing if a browser is found. Without a browser those tests are skipped; in CI this script fails.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { findBrowser } from "./browser.ts";

const packages = ["chromium", "fonts-dejavu-core"];
const isCi = Boolean(process.env["CI"]);
/** Networks of CI machines fail at times. */
const attempts = isCi ? 3 : 1;
const pauseMs = 10_000;
const timeoutMs = 600_000;

const print = (text: string) => process.stderr.write(`${text}\n`);

function osId(): string | undefined {
  try {
    return /^ID="?(\w+)"?$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

/** Prefix that runs a command as root; undefined if that is not possible. */
function asRoot(): readonly string[] | undefined {
  if (process.getuid?.() === 0) return [];
  return spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status === 0 ? ["sudo", "-n"] : undefined;
}

/** Runs apt-get; returns whether it succeeded. */
function apt(root: readonly string[], ...words: string[]): boolean {
  const options = ["-qq", "-o", "Acquire::Reattempts=2", "-o", "Acquire::http::Timeout=20", "-o", "Dpkg::Use-Pty=0"];
  const [program, ...args] = [...root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...options, ...words];
  return spawnSync(program, args, { stdio: ["ignore", "ignore", "inherit"], timeout: timeoutMs }).status === 0;
}

/** Installs the packages; returns whether a browser is found afterwards. */
async function install(root: readonly string[]): Promise<boolean> {
  print(`The dashboard's tests require chromium; running apt-get install ${packages.join(" ")}`);
  for (let attempt = 1; attempt <= attempts; attempt++) {
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
  const hint = "install chromium or chrome, or set CHROMIUM=/path/to/it";
  print(`${isCi ? "No browser for the dashboard's tests" : "The dashboard's browser tests are skipped"}: ${hint}`);
  return isCi ? 1 : 0;
}

try {
  process.exitCode = await setUp();
} catch (error) {
  print((error as Error).message);
  process.exitCode = 1;
}
