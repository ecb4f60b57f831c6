import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import { afterAll, beforeAll } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Inside node_modules, where the program finds its dependencies. */
const built = join(root, "node_modules/.cache", `kvlab-test-${process.pid}-${Date.now()}`);

const folders: string[] = [built];
beforeAll(build);
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Builds the program in the layout of the package, because from source it takes three times as long to start. */
async function build(): Promise<void> {
  await esbuild.build({
    entryPoints: [join(root, "index.ts"), join(root, "cli/main.ts")],
    outbase: root,
    outdir: join(built, "dist"),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    packages: "external",
  });
  copyFileSync(join(root, "package.json"), join(built, "package.json"));
  cpSync(join(root, "sim/profiles"), join(built, "sim/profiles"), { recursive: true });
}

export const fromBuild = () => [join(built, "dist/cli/main.js")];

/** The program that `npm run kvlab` starts. */
export const fromSource = () => ["--import", createRequire(import.meta.url).resolve("tsx"), join(root, "cli/main.ts")];

/** An empty folder outside the checkout, removed after the tests. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "kvlab-cli-"));
  folders.push(folder);
  return folder;
}

export interface Ended {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the real program in `folder`. */
export function start(
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  program = fromBuild(),
  stdout: "pipe" | number = "pipe",
): ChildProcess {
  const { FORCE_COLOR: _, ...clean } = process.env;
  return spawn(process.execPath, [...program, ...args], {
    cwd: folder,
    env: { ...clean, ...env },
    stdio: ["pipe", stdout, "pipe"],
  });
}

export function ended(child: ChildProcess): Promise<Ended> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
}

export const kvlab = (folder: string, args: readonly string[], env?: NodeJS.ProcessEnv) =>
  ended(start(folder, args, env));

/** The document that `--json` prints. @throws an error with the program's message if it fails */
export async function json(folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await kvlab(folder, [...args, "--json"]);
  if (code !== 0 || stderr !== "") throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

/** The message of a refusal, checked to be one line on stderr, with exit code 2, nothing on stdout, and no file added or removed. */
export async function refusal(folder: string, args: readonly string[], program = fromBuild()): Promise<string> {
  const before = readdirSync(folder, { recursive: true });
  const { code, stdout, stderr } = await ended(start(folder, args, {}, program));
  const after = readdirSync(folder, { recursive: true });
  const one = /^kvlab: [^\n]+\n$/.test(stderr);
  if (code !== 2 || stdout !== "" || !one) throw new Error(`exit code ${code}, stdout "${stdout}", stderr "${stderr}"`);
  if (before.sort().join("\n") !== after.sort().join("\n")) throw new Error(`files are now ${after.join(", ")}`);
  return stderr.slice("kvlab: ".length, -1);
}
