// Installs what tests need before `npm test`, if that is possible without a password: Debian's chromium for the dashboard's tests,
// g++ with AddressSanitizer for the CUDA engine's, Redis and Slurm for those of sweeps. Prints nothing if all are found. Tests whose
// program is missing are skipped; in CI this script fails.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { findBrowser } from "./browser.ts";
import { findSanitizer } from "./compiler.ts";
import { findPrograms, redisPrograms, slurmPrograms } from "./programs.ts";

interface Requirement {
  /** The tests, as the subject of a sentence. */
  readonly tests: string;
  readonly program: string;
  readonly packages: readonly string[];
  readonly hint: string;
  isMet(): boolean;
}

const requirements: readonly Requirement[] = [
  {
    tests: "The dashboard's browser tests",
    program: "chromium",
    packages: ["chromium", "fonts-dejavu-core"],
    hint: "install chromium or chrome, or set CHROMIUM=/path/to/it",
    isMet: () => process.env["CHROMIUM"] === "none" || findBrowser(process.env) !== undefined,
  },
  {
    tests: "The CUDA engine's tests",
    program: "g++",
    packages: ["g++"],
    hint: "install g++ with libasan, or set CXX=/path/to/it",
    isMet: () => process.env["CXX"] === "none" || findSanitizer() !== undefined,
  },
  {
    tests: "Tests of kvlab sweep on a Redis",
    program: "redis-server",
    packages: ["redis-server"],
    hint: "install redis-server",
    isMet: () => findPrograms(redisPrograms),
  },
  {
    tests: "Tests of kvlab sweep on Slurm",
    program: "slurmctld",
    packages: ["slurm-wlm", "munge"],
    hint: "install slurm-wlm and munge, and run the tests as root",
    isMet: () => process.getuid?.() !== 0 || findPrograms(slurmPrograms),
  },
];
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

/** Installs the packages; returns whether the requirement is met afterwards. */
async function install(root: readonly string[], { tests, program, packages, isMet }: Requirement): Promise<boolean> {
  print(`${tests} require ${program}; running apt-get install ${packages.join(" ")}`);
  for (let attempt = 1; attempt <= attempts; attempt++) {
    if (attempt > 1) await sleep(pauseMs);
    apt(root, "update");
    if (apt(root, "install", "-y", "--no-install-recommends", ...packages) && isMet()) return true;
  }
  return false;
}

async function setUp(requirement: Requirement): Promise<void> {
  if (requirement.isMet()) return;
  const root = osId() === "debian" ? asRoot() : undefined;
  if (root && (await install(root, requirement))) return;
  const { tests, program, hint } = requirement;
  print(isCi ? `${tests} require ${program}: ${hint}` : `${tests} are skipped: ${hint}`);
  if (isCi) process.exitCode = 1;
}

try {
  for (const requirement of requirements) await setUp(requirement);
} catch (error) {
  print((error as Error).message);
  process.exitCode = 1;
}
