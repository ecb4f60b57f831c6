// `npm run gpu:check`: correctness of an engine backend on this machine. Each check prints a line; all results are in one JSON file.
import { ExecutorError } from "../../engine/executor.ts";
import { checks } from "./checks.ts";
import { backendFrom, optionsFrom, Report } from "./report.ts";

const limitMinutes = 9.5;
const names = ["target", "expected", "python", "checkpoints", "requests", "only", "out"] as const;

async function main(): Promise<number> {
  const options = optionsFrom(process.argv.slice(2), names);
  const { target, expected, python = "python3", checkpoints, requests = "60", only = "" } = options;
  const backend = backendFrom(target);
  const { found, report: runtime } = await backend.runtime.load();
  const report = new Report("gpu-check/1", options.out ?? "gpu-check.json", limitMinutes, {
    ...{ target: backend.name, backend: backend.reportName, runtime },
  });
  report.line(`${backend.runtime.name}: ${found}`);
  const results: object[] = [];
  let failed = 0;
  for (const check of checks.filter(({ name }) => name.includes(only))) {
    if (report.isOver) {
      results.push({ name: check.name, ok: false, failures: ["not run: the time limit has passed"] });
      failed++;
      continue;
    }
    const from = report.seconds;
    const outcome = await check
      .run({ backend, expected, python, checkpoints, requests: Number(requests) })
      .catch((error: Error) => ({ failures: [error.stack ?? error.message], results: {} }));
    const ok = outcome.failures.length === 0;
    if (!ok) failed++;
    const skipped = "skipped" in outcome ? outcome.skipped : undefined;
    report.line(
      `${ok ? (skipped === undefined ? "ok     " : "skipped") : "FAILED "} ${check.name}${skipped ? `: ${skipped}` : ""}`,
    );
    for (const failure of outcome.failures) report.line(`        ${failure.split("\n")[0]}`);
    results.push({ name: check.name, ok, skipped: skipped ?? null, seconds: report.seconds - from, ...outcome });
    report.add({ checks: results, failed });
  }
  report.line(failed === 0 ? "all checks passed" : `${failed} checks failed`);
  return failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`gpu:check: ${(error as Error).message}\n`);
  process.exitCode = error instanceof ExecutorError ? 2 : 1;
}
