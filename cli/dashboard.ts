import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { InputError } from "../core/errors.ts";
import { checkFolder, checkPolicies, sourcesIn } from "../lab/dashboard/sources.ts";
import { deleteRun, linkRun } from "../lab/output/run-directory.ts";
import { runsFolder } from "../lab/output/save.ts";
import { replaceFile } from "../traces/replace-file.ts";
import type { RunRow } from "../viz/api.ts";
import type { Dashboard } from "../viz/server/serve.ts";
import { path, wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";

interface DashboardOptions {
  readonly port: number;
  readonly traces: readonly string[];
  readonly policies?: string;
  readonly models?: string;
  readonly open?: boolean;
  readonly export?: string;
  readonly search?: string;
}

const defaultPort = 8090;

const examples = `
Examples:
  kvlab dashboard                          the runs in runs/
  kvlab dashboard runs/sweep --port 0      any free port
  kvlab dashboard --traces data --open     runs over these traces can be started
  kvlab dashboard --policies mine          runs with your own policies, too
  kvlab dashboard --export paper.html --search tag=paper
                                           these runs compared in one file

The server is reachable from this machine only. The page can start runs over the
built-in example and the traces below the --traces folders, with the built-in
policies and those directly in the --policies folder, on models with random
weights and those below the --models folder. Runs of kvlab replay --live are
shown while they run. Ctrl-C stops the server and the runs that it started.`;

export function addDashboard(program: Command): void {
  program
    .command("dashboard")
    .description("show the saved runs in the browser, at localhost")
    .argument("[RUNS]", "folder of saved runs", runsFolder)
    .option("--port <N>", "port on 127.0.0.1 (0: any free port)", wholeNumber("--port", 0, 65_535), defaultPort)
    .addOption(
      new Option("--traces <DIRS...>", "folders of traces that the page can start runs over").default([], "none"),
    )
    .option("--policies <DIR>", "folder of your own policies for these runs", path("--policies", "a folder"))
    .option("--models <DIR>", "folder of models for runs on a real engine", path("--models", "a folder"))
    .option("--open", "open the page in the browser")
    .option("--export <FILE>", "write a comparison as one HTML file, and end", path("--export", "a file"))
    .option("--search <WORDS>", "the runs to export, as in the page's search (default: those of the newest workload)")
    .addHelpText("after", examples)
    .action(dashboard);
}

async function dashboard(runs: string, options: DashboardOptions): Promise<void> {
  await checkRuns(runs);
  for (const folder of options.traces) await checkFolder("--traces", folder);
  if (options.policies !== undefined) await checkPolicies(options.policies);
  if (options.models !== undefined) await checkFolder("--models", options.models);
  if (options.export !== undefined) return await exportComparison(runs, options.export, options.search);
  if (options.search !== undefined) throw new InputError("--search: selects the runs of --export, which is not given");
  const { bundlePage } = await import("../viz/bundle.ts");
  const { comparisonReport } = await import("../lab/dashboard/comparison-report.ts");
  const folder = resolve(runs);
  const served = await serving(options.port, {
    page: await bundlePage(),
    folder,
    program: [process.execPath, ...process.execArgv, resolve(process.argv[1])],
    sources: () => sourcesIn(options),
    keep: (saved: string, id: string) => linkRun(saved, join(folder, id)),
    deleteRun: (id: string) => deleteRun(join(folder, id)),
    report: comparisonReport,
  });
  print(`${served.url}  shows the runs in ${runs}; Ctrl-C ends it\n`);
  if (options.open) openBrowser(served.url);
  await untilSignal(served);
}

/** Writes the comparison of the runs that the search finds, or of the newest workload. @throws InputError if there are none */
async function exportComparison(folder: string, file: string, search: string | undefined): Promise<void> {
  // Loaded on demand: no other command needs them.
  const [{ Runs }, { reportedRuns }, { searchFor }, { workloadOf }, { comparisonReport }] = await Promise.all([
    import("../viz/server/runs.ts"),
    import("../viz/server/reported-runs.ts"),
    import("../viz/app/data/search.ts"),
    import("../viz/app/data/answer.ts"),
    import("../lab/dashboard/comparison-report.ts"),
  ]);
  const runs = new Runs(resolve(folder));
  const rows = (await runs.list()).filter((row): row is RunRow => !("problem" in row) && !row.notes?.hidden);
  const isFound = search === undefined ? undefined : searchFor(search);
  const found = rows.filter((row) => (isFound ? isFound(row) : workloadOf(row) === workloadOf(rows[0])));
  if (found.length === 0)
    throw new InputError(
      `${folder}: has no run${search === undefined ? "" : ` that --search ${JSON.stringify(search)} finds`}`,
    );
  const reported = await reportedRuns(
    runs,
    found.map(({ id }) => id),
  );
  const metric = found.find(({ uncertainty }) => uncertainty)?.uncertainty?.metric;
  const html = comparisonReport(reported, metric);
  await replaceFile(file, (temporary) => writeFile(temporary, html));
  print(`${file}: a comparison of ${found.length} run${found.length === 1 ? "" : "s"}\n`);
}

/** @throws InputError if the path is not a folder, or is the folder of a single run. */
async function checkRuns(runs: string): Promise<void> {
  if (runs === "") throw new InputError("RUNS is empty, expected a folder");
  const found = await readdir(runs).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    // The first run creates the folder.
    if (found.code === "ENOENT") return;
    throw new InputError(`${runs}: ${found.code === "ENOTDIR" ? "is a file" : found.code}, expected a folder of runs`);
  }
  if (found.includes("run.json"))
    throw new InputError(`${runs}: is a single run, expected the folder that contains it`);
}

type ServerOptions = Omit<Parameters<typeof import("../viz/server/serve.ts").serveDashboard>[0], "port">;

/** @throws InputError if the port cannot be opened. */
async function serving(port: number, served: ServerOptions): Promise<Dashboard> {
  // Loaded on demand: no other command needs a server, whose modules reserve address space.
  const { serveDashboard } = await import("../viz/server/serve.ts");
  try {
    return await serveDashboard({ ...served, port });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE")
      throw new InputError(`--port ${port}: is in use, perhaps by another dashboard; choose another one, or 0 for any`);
    if (code === "EACCES") throw new InputError(`--port ${port}: is not allowed; choose one from 1024, or 0 for any`);
    throw error;
  }
}

/** Ctrl-C is the normal end of a dashboard: exit code 0. */
async function untilSignal(served: Dashboard): Promise<void> {
  await withEngine(async () => {
    if (!interruption.aborted) await once(interruption, "abort");
    await served.close();
  });
}

function openBrowser(url: string): void {
  const [program, ...args] =
    process.platform === "darwin" ? ["open"] : process.platform === "win32" ? ["cmd", "/c", "start"] : ["xdg-open"];
  const child = spawn(program, [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => process.stderr.write(`kvlab: no browser could be opened; open ${url} yourself\n`));
  child.unref();
}
