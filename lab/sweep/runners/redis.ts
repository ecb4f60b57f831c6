import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { InputError } from "../../../core/errors.ts";
import { throwIfInterrupted } from "../../control.ts";
import { parseResult } from "../shard.ts";
import { checkRedis, lasting, queueName, queueRetries, type ShardData, shownAddress } from "./redis-queue.ts";
import { type Outcome, type ShardRunner, type ShardTask, smallShards } from "./runner.ts";

/** Interval between looks at the shards that have ended. */
const pollMs = 100;
/** Every so many polls all shards are looked at, because a restarted Redis may have lost some. */
const pollsPerCheck = 20;
/** Shards in Redis at once. */
const mostQueued = 200;
/** Shards that have ended and that no sweep collects are removed after this time. */
const keptS = 3600;

/** Runs shards by the workers that share a Redis. What a restarted Redis has lost is queued again. */
export async function redisRunner(address: string, note: (text: string) => void = () => {}): Promise<ShardRunner> {
  await checkRedis(address);
  const connection = new Redis(address, lasting);
  const queue = new Queue<ShardData>(queueName, { connection, streams: { events: { maxLen: 100 } } });
  let state: "connected" | "lost" | "closed" = "connected";
  queue.on("error", () => {});
  connection.on("error", () => {});
  connection.on("close", () => {
    if (state === "connected") note(`the connection to ${shownAddress(address)} was lost; waiting for it`);
    if (state === "connected") state = "lost";
  });
  connection.on("ready", () => {
    state = "connected";
  });
  const noted = new Set<string>();
  const noteOnce = (text: string) => {
    if (!noted.has(text)) note(text);
    noted.add(text);
  };
  return {
    label: shownAddress(address),
    shardSize: smallShards,
    async run(tasks, { signal, ended }) {
      const queued = new Map<string, (typeof tasks)[number]>();
      const command = <Result>(act: () => Promise<Result>) => unlessAborted(signal, act, address);
      let next = 0;
      try {
        for (let poll = 1; next < tasks.length || queued.size > 0; poll++) {
          while (next < tasks.length && queued.size < mostQueued) {
            const task = tasks[next++];
            queued.set(task.name, task);
            await command(() => addTo(queue, task));
          }
          const isCheck = poll % pollsPerCheck === 0;
          const looked = isCheck
            ? [...queued.keys()]
            : await command(() => queue.getRanges(["completed", "failed"], 0, -1));
          for (const name of looked) {
            const task = queued.get(name);
            const outcome = task && (await command(() => outcomeOf(queue, task, noteOnce)));
            if (outcome === undefined) continue;
            queued.delete(name);
            await ended(task!, outcome);
          }
          if (isCheck && queued.size > 0 && (await command(() => queue.getWorkersCount())) === 0)
            noteOnce(`no worker is connected; kvlab worker ${shownAddress(address)} starts one`);
          // Rejects only if the signal aborts first.
          if (queued.size > 0) await sleep(pollMs, undefined, { signal }).catch(() => {});
          throwIfInterrupted(signal);
        }
      } finally {
        // A shard that a worker runs cannot be removed; its result is, after some time.
        if (state === "connected")
          await Promise.all([...queued.keys()].map((name) => queue.remove(name).catch(() => {})));
      }
    },
    async close() {
      state = "closed";
      connection.disconnect();
    },
  };
}

/** A command waits while Redis is away, but not after the signal. @throws Interrupted; InputError if Redis refuses the command */
async function unlessAborted<Result>(
  signal: AbortSignal,
  act: () => Promise<Result>,
  address: string,
): Promise<Result> {
  throwIfInterrupted(signal);
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
  });
  try {
    return await Promise.race([act(), aborted]);
  } catch (error) {
    throwIfInterrupted(signal);
    if ((error as Error).name !== "ReplyError") throw error;
    throw new InputError(`${shownAddress(address)}: ${(error as Error).message}`);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const addTo = (queue: Queue<ShardData>, { name, text }: ShardTask) =>
  queue.add(
    "shard",
    { text },
    {
      jobId: name,
      attempts: queueRetries,
      removeOnComplete: { age: keptS },
      removeOnFail: { age: keptS },
    },
  );

/** How a shard has ended; undefined if it is waiting or running. A shard that Redis does not have is added again. */
async function outcomeOf(
  queue: Queue<ShardData>,
  task: ShardTask,
  note: (text: string) => void,
): Promise<Outcome | undefined> {
  const job = await queue.getJob(task.name);
  if (job === undefined) {
    await addTo(queue, task);
    return undefined;
  }
  const { returnvalue, failedReason, finishedOn } = job;
  if (finishedOn === undefined) {
    if (failedReason !== undefined) note(`a worker refused a shard: ${failedReason}`);
    return undefined;
  }
  await job.remove();
  return failedReason === undefined ? { result: parseResult(String(returnvalue), task.name) } : { lost: failedReason };
}
