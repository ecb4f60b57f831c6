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

/** Starts the built program with a channel to this process, over which it reports its progress as to the dashboard. */
export function startReporting(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const { FORCE_COLOR: _, ...clean } = process.env;
  return spawn(process.execPath, [...fromBuild(), ...args], {
    cwd: folder,
    env: { ...clean, ...env, KVLAB_PROGRESS: "ipc" },
    stdio: ["pipe", "pipe", "pipe", "ipc"],
  });
}

/** Waits until a program of `startReporting` does what `doing` names. @throws an error if it ends before */
export function untilDoing(child: ChildProcess, doing: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const reported: string[] = [];
    child.on("message", (message: { readonly doing: string }) => {
      reported.push(message.doing);
      if (message.doing === doing) resolve();
    });
    child.on("close", (code) => reject(new Error(`ended with ${code} after ${reported.join(", ")}, not ${doing}`)));
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

/** Ends in the order of the calls, because the current directory is that of the process. */
let lastCommand: Promise<unknown> = Promise.resolve();

/** Commands and options that need a process of their own: threads, plug-in code, servers, standard input. */
const needsProcess = (args: readonly string[]) =>
  args.some((word) =>
    /\.[cm]?[jt]s$|^(cpu|cuda|-|serve|dashboard|doctor|verify|generate|calibrate|init|check|completion|complete|worker)$/.test(
      word,
    ),
  );

/** The same as `ended(start(…))`, without the CPU time that the start of a process takes where none is needed. */
export function kvlab(folder: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
  if (env !== undefined || needsProcess(args)) return ended(start(folder, args, env));
  const run = lastCommand.then(() => inThisProcess(folder, args));
  lastCommand = run;
  return run;
}

/** Output of the command that runs in this process. */
let written = { stdout: "", stderr: "" };

const capture = (name: keyof typeof written) =>
  ((text: string | Uint8Array, ...rest: unknown[]) => {
    written[name] += typeof text === "string" ? text : Buffer.from(text).toString();
    for (const done of rest) if (typeof done === "function") done();
    return true;
  }) as typeof process.stdout.write;

async function inThisProcess(folder: string, args: readonly string[]): Promise<Ended> {
  const { FORCE_COLOR } = process.env;
  const before = {
    folder: process.cwd(),
    out: process.stdout.write,
    err: process.stderr.write,
    code: process.exitCode,
  };
  written = { stdout: "", stderr: "" };
  delete process.env["FORCE_COLOR"];
  process.stdout.write = capture("stdout");
  process.stderr.write = capture("stderr");
  process.chdir(folder);
  process.exitCode = undefined;
  try {
    const { runCommand } = await import(join(built, "dist/cli/program.js"));
    await runCommand(args);
    return { code: Number(process.exitCode ?? 0), ...written };
  } finally {
    process.exitCode = before.code;
    process.chdir(before.folder);
    process.stdout.write = before.out;
    process.stderr.write = before.err;
    if (FORCE_COLOR !== undefined) process.env["FORCE_COLOR"] = FORCE_COLOR;
  }
}

/** The document that `--json` prints. @throws an error with the program's message if it fails */
export async function json(folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await kvlab(folder, [...args, "--json"]);
  if (code !== 0 || stderr !== "") throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

/** The message of a refusal, checked to be one line on stderr, with exit code 2, nothing on stdout, and no file added or removed. */
export async function refusal(folder: string, args: readonly string[], program?: string[]): Promise<string> {
  const before = readdirSync(folder, { recursive: true });
  const { code, stdout, stderr } = await (program ? ended(start(folder, args, {}, program)) : kvlab(folder, args));
  const after = readdirSync(folder, { recursive: true });
  const one = /^kvlab: [^\n]+\n$/.test(stderr);
  if (code !== 2 || stdout !== "" || !one) throw new Error(`exit code ${code}, stdout "${stdout}", stderr "${stderr}"`);
  if (before.sort().join("\n") !== after.sort().join("\n")) throw new Error(`files are now ${after.join(", ")}`);
  return stderr.slice("kvlab: ".length, -1);
}
