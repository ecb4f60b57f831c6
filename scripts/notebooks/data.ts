import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

/** Files of traces that commands name by a shell variable, and the name of each for `kvlab trace fetch`. */
const traces = {
  CONVERSATION: { file: "mooncake/conversation_trace.jsonl.gz", name: "mooncake-conversation" },
  SHAREGPT: { file: "sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz", name: "llmservingsim-llama" },
} as const;

export interface DataOptions {
  /** The folder of the notebooks. */
  readonly folder: string;
  /** The folder of the traces. */
  readonly traces: string;
  /** Fewer requests, and the built-in trace in place of files that are missing. */
  readonly isQuick: boolean;
  /** How kvlab is started: the executable and the arguments before the command. */
  readonly program: readonly string[];
  readonly signal?: AbortSignal;
}

/** The names of all notebooks in a folder, without the gallery. */
export const notebooksIn = (folder: string): string[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith(".html") && file !== "index.html")
    .map((file) => basename(file, ".html"))
    .sort();

/** The commands that make a notebook's data: its first block of shell commands. @throws Error if it has none */
export function commandsOf(folder: string, name: string): string {
  const found = /^( *)```sh\n([\s\S]*?)^ *```$/m.exec(readFileSync(join(folder, `${name}.html`), "utf8"));
  if (!found) throw new Error(`${name}.html has no block of shell commands (\`\`\`sh)`);
  const [, indent, commands] = found;
  return commands.replaceAll(new RegExp(`^${indent}`, "gm"), "");
}

/**
 * Runs the commands of a notebook in `data/NAME` of its folder, which is replaced when all of them have ended well.
 *
 * @throws Error if a trace is missing or a command fails, with its output
 */
export async function makeData(name: string, options: DataOptions): Promise<void> {
  const { folder, isQuick, program, signal } = options;
  const commands = commandsOf(folder, name);
  const target = join(folder, "data", name);
  const temporary = `${target}.${process.pid}.tmp`;
  const programs = mkdtempSync(join(tmpdir(), "kvlab-notebooks-"));
  try {
    const words = program.map((word) => `'${word}'`).join(" ");
    writeFileSync(join(programs, "kvlab"), `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary, { recursive: true });
    const env = { ...process.env, ...traceFiles(name, commands, options), PATH: `${programs}:${process.env["PATH"]}` };
    await bash(name, commands, temporary, { ...env, REQUESTS: isQuick ? "400" : "1000000" }, signal);
    rmSync(target, { recursive: true, force: true });
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
    rmSync(programs, { recursive: true, force: true });
  }
}

/** The variables of the traces that these commands name. */
function traceFiles(notebook: string, commands: string, { traces: folder, isQuick }: DataOptions): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { TRACES: folder };
  for (const [variable, { file, name }] of Object.entries(traces)) {
    const path = join(folder, file);
    if (!commands.includes(`$${variable}`)) continue;
    if (existsSync(path)) env[variable] = path;
    else if (isQuick) env[variable] = "example";
    else
      throw new Error(
        `${notebook} needs ${path}: download it with \`kvlab trace fetch ${name}\`, or name its folder in KVLAB_TRACES`,
      );
  }
  return env;
}

function bash(
  name: string,
  commands: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
  signal?: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ["-euo", "pipefail", "-c", commands];
    const child = spawn("bash", args, { cwd, env, stdio: ["ignore", "ignore", "pipe"], signal });
    let output = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-4000);
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`the commands of ${name} ended with ${code}: ${output.trim()}`));
    });
  });
}
