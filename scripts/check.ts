// `npm run check`: types, lint and dead code side by side, then all tests. The output of a check is printed when it has ended; if
// one fails, no tests run.
import { spawn } from "node:child_process";

/** npm scripts: lists that run side by side. */
const lists = [["types"], ["lint", "deadcode"]];

interface Result {
  readonly succeeded: boolean;
  readonly output: string;
}

function run(script: string): Promise<Result> {
  const child = spawn(`npm run -s ${script}`, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  return new Promise((resolve) => {
    child.on("close", (code) => resolve({ succeeded: code === 0, output }));
  });
}

async function runInTurn(scripts: readonly string[]): Promise<boolean> {
  let allSucceeded = true;
  for (const script of scripts) {
    const { succeeded, output } = await run(script);
    process.stdout.write(`${script}: ${succeeded ? "ok" : "failed"}\n${output}`);
    allSucceeded &&= succeeded;
  }
  return allSucceeded;
}

const succeeded = await Promise.all(lists.map(runInTurn));
if (succeeded.includes(false)) process.exitCode = 1;
else
  spawn("npm run -s test:run", { shell: true, stdio: "inherit" }).on("close", (code) => {
    process.exitCode = code ?? 1;
  });
