// Makes the data and the pages of notebooks/: `npm run notebooks -- [NAME…] [--quick] [--pages] [--preview]`
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { preview } from "vite";
import { makeData, notebooksIn } from "./notebooks/data.ts";
import { buildPages } from "./notebooks/pages.ts";

const help = `npm run notebooks -- [NAME…] [options]

Makes the data of the notebooks (all, or those named) with the commands that each of them shows, and builds their pages
into notebooks/dist.

  --quick    few requests, and the built-in trace where a file is missing
  --pages    only the pages, from the data of an earlier call
  --preview  serve the pages afterwards, at an address of this machine

Traces are read from the folder in KVLAB_TRACES (default: ../shared/traces).
`;

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "notebooks");
const all = notebooksIn(folder);
const flag = { type: "boolean", default: false } as const;

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: flag, pages: flag, preview: flag, help: { ...flag, short: "h" } },
  });
  const unknown = positionals.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Error(`there is no notebook "${unknown}", expected ${all.join(", ")}`);
  if (values.help) process.stdout.write(help);
  else await make(positionals.length > 0 ? positionals : all, values);
} catch (error) {
  process.stderr.write(`notebooks: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
}

async function make(names: readonly string[], only: { quick: boolean; pages: boolean; preview: boolean }) {
  const stop = new AbortController();
  const interrupt = () => stop.abort();
  process.once("SIGINT", interrupt);
  const options = {
    folder,
    traces: resolve(process.env["KVLAB_TRACES"] ?? join(root, "../shared/traces")),
    isQuick: only.quick,
    program: [process.execPath, "--import", import.meta.resolve("tsx"), join(root, "cli/main.ts")],
    signal: stop.signal,
  };
  try {
    if (!only.pages) await inTurn(names, (name) => timed(name, () => makeData(name, options)));
  } catch (error) {
    stop.abort();
    throw error;
  } finally {
    process.off("SIGINT", interrupt);
  }
  const out = await buildPages(folder, names);
  process.stdout.write(`pages in ${out}; npm run notebooks -- --pages --preview serves them\n`);
  if (only.preview) {
    const server = await preview({ root: folder, configFile: false, build: { outDir: out } });
    server.printUrls();
  }
}

/** Acts on as many names at once as there are processors. The first error ends it. */
async function inTurn(names: readonly string[], act: (name: string) => Promise<void>): Promise<void> {
  const waiting = [...names];
  const one = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) await act(name);
  };
  await Promise.all(Array.from({ length: Math.min(names.length, availableParallelism()) }, one));
}

async function timed(name: string, act: () => Promise<void>): Promise<void> {
  const from = performance.now();
  await act();
  process.stdout.write(`${name.padEnd(20)} ${((performance.now() - from) / 1000).toFixed(1).padStart(6)} s\n`);
}
