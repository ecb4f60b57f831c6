import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { InputError } from "../core/errors.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  schedulerRegistry,
} from "../policies/registry.ts";
import type { Sources } from "../viz/server/job-words.ts";
import { exampleName } from "./input.ts";
import { runFiles } from "./run-directory.ts";

const traceFile = /\.jsonl?(\.gz)?$/;
const policyFile = /\.[cm]?[jt]s$/;
/** What looks like a trace or a policy and is none: parts of saved runs, and libraries. */
const passedOver: readonly string[] = [...runFiles, "node_modules"];
/** Below a folder of traces. */
const deepest = 4;
const mostFiles = 2000;

/** @throws InputError if it is none that can be read. */
export async function checkFolder(option: string, folder: string): Promise<void> {
  const found = await readdir(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    throw new InputError(
      `${option} ${folder}: ${found.code === "ENOTDIR" ? "is a file" : found.code}, expected a folder`,
    );
}

/** What the dashboard can start a run with: the files that are in the folders now, by paths as the user named them. */
export async function sourcesIn(traceFolders: readonly string[], policies: string | undefined): Promise<Sources> {
  const traces = (await Promise.all(traceFolders.map((folder) => filesBelow(folder, traceFile, deepest)))).flat();
  const own = policies === undefined ? [] : await filesBelow(policies, policyFile, 1);
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);
  return {
    files: new Map([...traces, ...own]),
    choices: {
      traces: [exampleName, ...traces.map(([name]) => name)],
      presets: names(presetRegistry.all),
      indexes: names(indexRegistry.all),
      evictions: [...names(evictionRegistry.all), ...own.map(([name]) => name)],
      allocators: names(allocatorRegistry.all),
      schedulers: names(schedulerRegistry.all),
    },
  };
}

/** Files by name and by full path; none that a link leads to out of the folder, and none that a comma list would part. */
async function filesBelow(folder: string, pattern: RegExp, depth: number): Promise<[name: string, path: string][]> {
  const root = await realpath(folder).catch(() => undefined);
  const found: [string, string][] = [];
  if (root !== undefined) await add(root, depth);
  return found.sort(([a], [b]) => (a < b ? -1 : 1));

  async function add(below: string, deeper: number): Promise<void> {
    for (const entry of await readdir(below, { withFileTypes: true }).catch(() => [])) {
      const { name } = entry;
      if (found.length >= mostFiles) return;
      if (name.startsWith(".") || name.includes(",") || passedOver.includes(name)) continue;
      const path = join(below, name);
      if (entry.isDirectory() && deeper > 1) await add(path, deeper - 1);
      else if (pattern.test(name) && (await isFileIn(root!, path)))
        found.push([named(join(folder, relative(root!, path))), path]);
    }
  }
}

async function isFileIn(root: string, path: string): Promise<boolean> {
  const real = await realpath(path).catch(() => undefined);
  return real !== undefined && (real + sep).startsWith(root + sep) && (await stat(real)).isFile();
}

/** As one writes a file's path: a name without a folder would be that of a policy of kvlab. */
const named = (path: string) => (path.includes(sep) ? path : `.${sep}${path}`);
