import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, inject } from "vitest";

/** test/support/built-program.ts builds it. */
const built = inject("builtProgram");

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export const fromBuild = () => [join(built, "dist/cli/main.js")];

/** The program that `npm run kvlab` starts. */
export const fromSource = () => [
  "--import",
  createRequire(import.meta.url).resolve("tsx"),
  fileURLToPath(new URL("../../cli/main.ts", import.meta.url)),
];

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
