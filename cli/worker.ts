import { createInterface } from "node:readline";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { checkFolder } from "../lab/dashboard/sources.ts";
import { ShardRuns } from "../lab/sweep/run-shard.ts";
import type { WorkerAnswer } from "../lab/sweep/runners/local.ts";
import { path } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { complain, exitNow, print } from "./output/print.ts";

interface WorkerOptions {
  readonly traces?: string;
}

const examples = `
Examples:
  kvlab worker redis://10.0.0.5:6379            until Ctrl-C
  kvlab worker redis://10.0.0.5:6379 --traces /data/traces
  kvlab worker runs/sweep/shard.json            one shard, as Slurm runs it

A worker runs shards, the parts of a sweep (kvlab sweep --on redis://…), one
after the other; start one for each processor. It finds traces, plug-ins and
other files at the paths of the sweep, or in the --traces folder, and refuses
files with other content. Write access to the Redis allows to run plug-in files
of this machine: use a Redis that only you can reach.`;

export function addWorker(program: Command): void {
  program
    .command("worker")
    .description("run shards of kvlab sweep: from a Redis, or in a file")
    .argument("<WHERE>", "address of a Redis, or a shard's file (-: reads [INPUT, OUTPUT] lines from standard input)")
    .option("--traces <DIR>", "folder with the traces and other files", path("--traces", "a folder"))
    .addHelpText("after", examples)
    .action(work);
}

async function work(where: string, { traces }: WorkerOptions): Promise<void> {
  if (where === "") throw new InputError("WHERE is empty, expected the address of a Redis, or a file");
  if (traces !== undefined) await checkFolder("--traces", traces);
  const options = { traces: traces === undefined ? [] : [traces], signal: interruption };
  await withEngine(async () => {
    if (/^rediss?:\/\//.test(where)) {
      const { workOnRedis } = await import("../lab/sweep/runners/redis-worker.ts");
      await workOnRedis(where, { ...options, note: (text) => void complain(text, 0) });
      // A client that waits for its Redis would keep the process running.
      exitNow(0);
    } else if (where === "-") await workOnInput(new ShardRuns(options));
    else await new ShardRuns(options).runFile(where, where.replace(/(\.json)?$/, ".result.json"));
  });
}

/** Runs the shards whose files standard input names, until it ends: the program that started this one has ended then. */
async function workOnInput(shards: ShardRuns): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  interruption.addEventListener("abort", () => lines.close(), { once: true });
  for await (const line of lines) {
    const [input, output] = JSON.parse(line) as [string, string];
    let answer: WorkerAnswer;
    try {
      await shards.runFile(input, output);
      answer = { done: output };
    } catch (error) {
      if (interruption.aborted) throw error;
      answer = { failed: error instanceof Error ? error.message : String(error) };
    }
    print(`${JSON.stringify(answer)}\n`);
  }
}
