import { copyFileSync, cpSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, type OnLoadResult } from "esbuild";
import type { TestProject, Vite } from "vitest/node";
import { writePage } from "../../viz/bundle.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Folder of the program that tests start; `vitest.config.ts` chooses it. */
    readonly builtProgram: string;
  }
}

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A new folder for the program of one test run. It is inside node_modules, where the program finds its dependencies. */
export const programFolder = () => join(root, "node_modules/.cache", `kvlab-test-${process.pid}-${Date.now()}`);

/** The library, the program, and the programs of the engines' threads. */
const entryPoints = [
  "index.ts",
  "cli/main.ts",
  "cli/program.ts",
  "engine/cpu/starter.ts",
  "engine/cpu/worker.ts",
  "engine/cuda/worker.ts",
  "lab/curve/replay-worker.ts",
  "lab/serve/text-worker.ts",
  "lab/size/size-worker.ts",
];

/**
 * Builds the program once, before all test files, and removes it after them. A built program starts with a fourth of the CPU time
 * that it needs from source.
 */
export default async function setUp(project: TestProject): Promise<() => void> {
  const folder = project.getProvidedContext().builtProgram;
  project.onTestsRerun(() => buildProgram(folder));
  await buildProgram(folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

/**
 * Engines that tests open start the threads of the built program, because a thread from source transforms its modules anew, for
 * half a second of CPU time each.
 */
export const builtThreads = (folder: string): Vite.Plugin => ({
  name: "built-threads",
  transform(code, id) {
    if (!/\/(engine\/(cpu|cuda)\/(executor|thread)|lab\/serve\/text-client)\.ts$/.test(id)) return undefined;
    return { code: code.replaceAll("import.meta.url", moduleUrl(id, join(folder, "dist"))), map: null };
  },
});

/** Builds the program in the layout of the package, with its modules in a few large files. */
async function buildProgram(folder: string): Promise<void> {
  const dist = join(folder, "dist");
  await build({
    absWorkingDir: root,
    entryPoints,
    outbase: root,
    outdir: dist,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    packages: "external",
    plugins: [
      {
        name: "module-urls",
        setup: ({ onLoad }) => onLoad({ filter: /\.ts$/ }, ({ path }) => withModuleUrl(path, dist)),
      },
    ],
  });
  await writePage(join(dist, "viz/page"));
  copyFileSync(join(root, "package.json"), join(folder, "package.json"));
  cpSync(join(root, "sim/profiles"), join(folder, "sim/profiles"), { recursive: true });
}

/** Replaces `import.meta.url` by the module's URL in the package, because files are found relative to it. */
function withModuleUrl(path: string, dist: string): OnLoadResult {
  return { contents: readFileSync(path, "utf8").replaceAll("import.meta.url", moduleUrl(path, dist)), loader: "ts" };
}

/** The URL of a source file's module in the package, as a string literal. */
const moduleUrl = (path: string, dist: string) =>
  JSON.stringify(pathToFileURL(join(dist, relative(root, path).replace(/\.ts$/, ".js"))).href);
