// `npm run gpu:check`: correctness of an engine backend on this machine. Each check prints a line; all results are in one JSON file.
// The checks run in a process of their own, and after a failure in a new one: an error of a kernel makes all later calls of its
// process fail.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { ExecutorError } from "../../engine/executor.ts";
import { type CheckOptions, checks, type Outcome } from "./checks.ts";
import { backendFrom, optionsFrom, Report } from "./report.ts";

const limitMinutes = 9.5;
const names = ["target", "expected", "python", "checkpoints", "requests", "only", "out", "from"] as const;
type Options = ReturnType<typeof optionsFrom<(typeof names)[number]>>;

const chosen = ({ only = "" }: Options) => checks.filter(({ name }) => name.includes(only));

/** Runs checks from number `from` on, up to the first that fails, and prints each outcome as a line of JSON. */
async function runFrom(from: number, given: Options): Promise<void> {
  const { target, expected, python = "python3", checkpoints, requests = "60" } = given;
  const options: CheckOptions = {
    ...{ backend: backendFrom(target), expected, python, checkpoints, requests: Number(requests) },
  };
  for (const check of chosen(given).slice(from)) {
    const outcome = await check.run(options).catch((error: Error): Outcome => {
      return { failures: [error.stack ?? error.message], results: {} };
    });
    process.stdout.write(`${JSON.stringify(outcome)}\n`);
    if (outcome.failures.length > 0) return;
  }
}

/** Runs `runFrom` in a process. `ended` is called for each check that ended; if the process crashes, for that check, too. */
async function outcomesFrom(
  from: number,
  total: number,
  signal: AbortSignal,
  ended: (outcome: Outcome) => void,
): Promise<void> {
  const args = [...process.execArgv, ...process.argv.slice(1), "--from", `${from}`];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], signal, killSignal: "SIGKILL" });
  let errors = "";
  let hasFailed = false;
  let count = 0;
  child.on("error", () => {});
  child.stderr.on("data", (text) => (errors += text));
  createInterface({ input: child.stdout }).on("line", (line) => {
    const outcome: Outcome = JSON.parse(line);
    hasFailed = outcome.failures.length > 0;
    count++;
    ended(outcome);
  });
  const [code, killed] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on("close", (...end) => resolve(end)),
  );
  if (hasFailed || from + count === total) return;
  const reason = signal.aborted ? "the time limit has passed" : errors.trim().split("\n").at(-1);
  ended({ failures: [`the process ended with ${killed ?? `code ${code}`}: ${reason}`], results: {} });
}

async function main(options: Options): Promise<number> {
  const backend = backendFrom(options.target);
  const { found, report: runtime } = await backend.runtime.load();
  const report = new Report("gpu-check/1", options.out ?? "gpu-check.json", limitMinutes, {
    ...{ target: backend.name, backend: backend.reportName, runtime },
  });
  report.line(`${backend.runtime.name}: ${found}`);
  const all = chosen(options);
  const signal = report.limit;
  const results: object[] = [];
  let failed = 0;
  let since = report.seconds;
  const ended = (outcome: Outcome) => {
    const { name } = all[results.length];
    const ok = outcome.failures.length === 0;
    if (!ok) failed++;
    const { skipped = null } = outcome;
    const mark = ok ? (skipped === null ? "ok     " : "skipped") : "FAILED ";
    report.line(`${mark} ${name}${skipped === null ? "" : `: ${skipped}`}`);
    for (const failure of outcome.failures) report.line(`        ${failure.split("\n")[0]}`);
    results.push({ name, ok, skipped, seconds: report.seconds - since, ...outcome });
    since = report.seconds;
    report.add({ checks: results, failed });
  };
  while (results.length < all.length) {
    if (signal.aborted) ended({ failures: ["not run: the time limit has passed"], results: {} });
    else await outcomesFrom(results.length, all.length, signal, ended);
  }
  report.line(failed === 0 ? "all checks passed" : `${failed} checks failed`);
  return failed === 0 ? 0 : 1;
}

try {
  const options = optionsFrom(process.argv.slice(2), names);
  if (options.from === undefined) process.exitCode = await main(options);
  else await runFrom(Number(options.from), options);
} catch (error) {
  process.stderr.write(`gpu:check: ${(error as Error).message}\n`);
  process.exitCode = error instanceof ExecutorError ? 2 : 1;
}
