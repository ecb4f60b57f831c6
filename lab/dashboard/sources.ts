import { readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { InputError } from "../../core/errors.ts";
import { backendNames } from "../../engine/backends.ts";
import { randomShapeNames } from "../../engine/model/random.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import { hardwareNames } from "../../sim/cost/hardware.ts";
import { modelNames } from "../../sim/cost/models.ts";
import { openTrace } from "../../traces/open.ts";
import type { Sources } from "../../viz/server/job-words.ts";
import { exampleName } from "../input.ts";
import { runFiles } from "../output/run-directory.ts";
import { defaultModel } from "../run/real-engine.ts";
import { simulatedDefaults } from "../run/simulation.ts";

const traceFile = /\.(jsonl?|csv)(\.gz)?$|\.parquet$/;
const policyFile = /\.[cm]?[jt]s$/;
/** Names that are skipped: files of saved runs, and libraries. */
const skippedNames: readonly string[] = [...runFiles, "node_modules"];
/** Depth of the search below a folder of traces or models. */
const maxDepth = 4;
const maxFiles = 2000;

/** @throws InputError if the folder cannot be read. */
export async function checkFolder(option: string, folder: string): Promise<void> {
  const found = await readdir(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    throw new InputError(
      `${option} ${folder}: ${found.code === "ENOTDIR" ? "is a file" : found.code}, expected a folder`,
    );
}

/** @throws InputError if the folder cannot be read, or its path has a comma, which separates the names in a list. */
export async function checkPolicies(folder: string): Promise<void> {
  await checkFolder("--policies", folder);
  const path = await realpath(folder);
  const withComma = [folder, path].find((each) => each.includes(","));
  if (withComma !== undefined)
    throw new InputError(`--policies ${withComma}: has a comma, expected a path without one`);
}

/** Folders given by the user. */
export interface SourceFolders {
  readonly traces: readonly string[];
  readonly policies?: string | undefined;
  readonly models?: string | undefined;
}

/** The choices for runs that the dashboard starts; files are those now in the folders, named by the user's paths. */
export async function sourcesIn(folders: SourceFolders): Promise<Sources> {
  const found = (folder: string | undefined, pattern: RegExp, depth: number) =>
    folder === undefined ? [] : filesBelow(folder, pattern, depth);
  const files = (await Promise.all(folders.traces.map((folder) => found(folder, traceFile, maxDepth)))).flat();
  const traces: Found[] = [];
  for (const file of files) if (await isTrace(file[1])) traces.push(file);
  const policies = await found(folders.policies, policyFile, 1);
  const models = (await found(folders.models, /^config\.json$/, maxDepth)).map(folderOf);
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);
  const { model, gpu, router } = simulatedDefaults;
  return {
    files: new Map([...traces, ...policies, ...models]),
    choices: {
      traces: [exampleName, ...traces.map(([name]) => name)],
      presets: names(presetRegistry.all),
      indexes: names(indexRegistry.all),
      evictions: [...names(evictionRegistry.all), ...policies.map(([name]) => name)],
      allocators: names(allocatorRegistry.all),
      schedulers: names(schedulerRegistry.all),
      routers: names(routerRegistry.all),
      models: modelNames,
      hardware: hardwareNames,
      engineTargets: backendNames,
      engineModels: [...randomShapeNames.map((name) => `random:${name}`), ...models.map(([name]) => name)],
      defaults: { model, gpu, router, engineModel: defaultModel },
    },
  };
}

type Found = [name: string, path: string];

/** By path: the version of a file, and whether its format is known. */
const traceFiles = new Map<string, { readonly version: string; readonly isTrace: boolean }>();

/** Whether a file has the format of a trace, by its beginning, which is read once for each version of the file. */
async function isTrace(path: string): Promise<boolean> {
  const { mtimeMs, size } = await stat(path);
  const version = `${mtimeMs} ${size}`;
  const known = traceFiles.get(path);
  if (known?.version === version) return known.isTrace;
  const isKnown = await openTrace([path]).then(
    () => true,
    () => false,
  );
  traceFiles.set(path, { version, isTrace: isKnown });
  return isKnown;
}

/** A model is named by the folder of its config.json. */
const folderOf = ([name, path]: Found): Found => [named(dirname(name)), dirname(path)];

/** Files by name and full path, without links to files outside the folder and without names that contain a comma. */
async function filesBelow(folder: string, pattern: RegExp, depth: number): Promise<Found[]> {
  const root = await realpath(folder).catch(() => undefined);
  const found: Found[] = [];
  if (root !== undefined) await add(root, depth);
  return found.sort(([a], [b]) => (a < b ? -1 : 1));

  async function add(below: string, deeper: number): Promise<void> {
    for (const entry of await readdir(below, { withFileTypes: true }).catch(() => [])) {
      const { name } = entry;
      if (found.length >= maxFiles) return;
      if (name.startsWith(".") || name.includes(",") || skippedNames.includes(name)) continue;
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

/** A path that begins with a folder, because a bare name selects a built-in policy. */
const named = (path: string) => (path.includes(sep) ? path : `.${sep}${path}`);
