import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { openCpuExecutor } from "../../../engine/cpu/executor.ts";
import { checkFits, describeOutOfMemory } from "../../../engine/cpu/memory.ts";
import { type Executor, ExecutorError } from "../../../engine/executor.ts";
import { loadModel } from "../../../engine/model/load.ts";
import { blockTokens, stepOf } from "./decoders.ts";

/** The thread from which executors' threads are started. */
let starter: Worker | undefined;
process.on("worker", (started) => {
  starter = started;
});

const folder = mkdtempSync(join(tmpdir(), "kvlab-starved-"));
const executors: Executor[] = [];
afterAll(async () => {
  for (const executor of executors) await executor.close();
  rmSync(folder, { recursive: true });
});

const blockCount = 2100;
const model = loadModel("random:15m");

async function opened(): Promise<Executor> {
  const executor = await openCpuExecutor({ model, blockCount, blockTokens, threads: 1, folder });
  executors.push(executor);
  return executor;
}

/** Limits the address space of this process and its threads; allocations beyond it fail. */
function limitMemory(bytes: number | undefined): void {
  const soft = bytes === undefined ? "unlimited" : String(bytes);
  execFileSync("prlimit", ["--pid", String(process.pid), `--as=${soft}:unlimited`]);
}

const usedBytes = () => 1024 * Number(/VmSize:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);

const canLimit = process.platform === "linux" && spawnSync("prlimit", ["--version"]).status === 0;

describe.runIf(canLimit)("out of memory", () => {
  afterEach(() => limitMemory(undefined));

  test("a failed step states its memory demand, and the executor continues when memory is available again", async () => {
    const executor = await opened();
    // Their logits alone are larger than any allocator's reserve.
    const large = stepOf(Array.from({ length: 2000 }, (_, i) => ({ tokens: [i % 250], from: 0, to: 1, table: [i] })));
    limitMemory(usedBytes() + 2 ** 26);
    const error = await executor.executeStep(large).catch((failure: unknown) => failure);
    limitMemory(undefined);
    expect(error).toBeInstanceOf(ExecutorError);
    expect((error as Error).message).toMatch(
      /^out of memory: random:15m needs 0\.1 GiB for its weights and \d\.\d GiB for 2100 blocks of 4 tokens and more for a step of 2000 tokens: the executor failed: /,
    );
    expect((await executor.executeStep(large)).logits).toHaveLength(2000 * model.config.vocabulary);
  });
});

test("a pool larger than memory is refused before anything is allocated", () => {
  const demand = { config: model.config, bits: 8, blockCount: 1e9, blockTokens } as const;
  expect(() => checkFits(demand)).toThrow(
    /^random:15m needs 0\.\d GiB for its weights and \d+\.\d GiB for 1000000000 blocks/,
  );
  expect(checkFits({ ...demand, blockCount: 10 })).toBeUndefined();
});

test("out-of-memory errors state the memory demand, and other errors are unchanged", () => {
  const demand = { config: model.config, bits: 32, blockCount: 700, blockTokens } as const;
  const failed = () => {
    try {
      return new ArrayBuffer(2 ** 50);
    } catch (error) {
      return describeOutOfMemory(error, demand);
    }
  };
  expect(failed()).toEqual(
    new ExecutorError(
      "out of memory: random:15m needs 0.1 GiB for its weights and 0.0 GiB for 700 blocks of 4 tokens: Array buffer allocation failed",
    ),
  );
  const other = new ExecutorError("the executor failed: idx=4000 must be within the inclusive range");
  expect(describeOutOfMemory(other, demand)).toBe(other);
});

test("a killed worker is reported, and another one can be started", async () => {
  const executor = await opened();
  await executor.readBlocks([3]);
  // Idle: terminating a thread during a step would crash the process.
  await starter?.terminate();
  await expect(executor.readBlocks([3])).rejects.toThrow("the executor's worker thread died: it exited with code 1");
  await expect(executor.readBlocks([3])).rejects.toBeInstanceOf(ExecutorError);
  await executor.close();
  const another = await opened();
  expect((await another.readBlocks([3]))[0].keys[0]).toBe(0);
});
