import { setTimeout as sleep } from "node:timers/promises";
import { Queue, QueueEvents } from "bullmq";
import { Redis } from "ioredis";
import { throwIfInterrupted } from "../../control.ts";
import { parseResult } from "../shard.ts";
import { checkRedis, lasting, queueName, queueRetries, type ShardData, shownAddress } from "./redis-queue.ts";
import { type Outcome, type ShardRunner, type ShardTask, smallShards } from "./runner.ts";

/** Interval between looks at all shards, besides those that an event announces. */
const pollMs = 1000;
/** Shards in Redis at once. */
const mostQueued = 200;
/** Completed shards that no sweep collects are removed after this time. */
const keptS = 3600;

/** Runs shards by the workers that share a Redis. What a restarted Redis has lost is queued again. */
export async function redisRunner(address: string, note: (text: string) => void = () => {}): Promise<ShardRunner> {
  await checkRedis(address);
  const connection = new Redis(address, lasting);
  const queue = new Queue<ShardData>(queueName, { connection, streams: { events: { maxLen: 100 } } });
  const events = new QueueEvents(queueName, { connection: connection.duplicate() });
  let isLost = false;
  // BullMQ's classes emit the errors of their connections, too.
  queue.on("error", () => {});
  events.on("error", () => {});
  connection.on("error", () => {});
  connection.on("close", () => {
    if (!isLost) note(`the connection to ${shownAddress(address)} was lost; waiting for it`);
    isLost = true;
  });
  connection.on("ready", () => {
    isLost = false;
  });
  return {
    label: shownAddress(address),
    shardSize: smallShards,
    async run(tasks, { signal, ended }) {
      const queued = new Map<string, ShardTask & (typeof tasks)[number]>();
      const announced = new Set<string>();
      let wake = () => {};
      const announce = ({ jobId }: { jobId: string }) => {
        announced.add(jobId);
        wake();
      };
      events.on("completed", announce);
      events.on("failed", announce);
      let next = 0;
      const noted = new Set<string>();
      const noteOnce = (text: string) => {
        if (!noted.has(text)) note(text);
        noted.add(text);
      };
      try {
        let isIdle = false;
        while (next < tasks.length || queued.size > 0) {
          throwIfInterrupted(signal);
          while (next < tasks.length && queued.size < mostQueued) {
            const task = tasks[next++];
            queued.set(task.name, task);
            await unlessAborted(signal, addTo(queue, task));
          }
          const looked = isIdle ? [...queued.keys()] : [...announced].filter((name) => queued.has(name));
          announced.clear();
          for (const name of looked) {
            const task = queued.get(name)!;
            const outcome = await unlessAborted(signal, outcomeOf(queue, task, noteOnce));
            if (outcome === undefined) continue;
            queued.delete(name);
            await ended(task, outcome);
          }
          if (announced.size > 0) {
            isIdle = false;
            continue;
          }
          const woken = new Promise<"woken">((resolve) => {
            wake = () => resolve("woken");
          });
          signal.addEventListener("abort", wake, { once: true });
          isIdle = (await Promise.race([woken, sleep(pollMs)])) !== "woken";
          signal.removeEventListener("abort", wake);
          if (isIdle && !isLost && (await unlessAborted(signal, queue.getWorkersCount())) === 0)
            noteOnce(`no worker is connected; kvlab worker ${shownAddress(address)} starts one`);
        }
      } finally {
        events.off("completed", announce);
        events.off("failed", announce);
        // A shard that a worker runs cannot be removed; its result is, after some time.
        if (!isLost) await Promise.all([...queued.keys()].map((name) => queue.remove(name).catch(() => {})));
      }
    },
    async close() {
      connection.disconnect();
      await Promise.all([queue.disconnect(), events.disconnect()]).catch(() => {});
    },
  };
}

/** A command waits while Redis is away, but not after the signal. */
async function unlessAborted<Result>(signal: AbortSignal, act: Promise<Result>): Promise<Result> {
  act.catch(() => {});
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  try {
    return await Promise.race([act, aborted]);
  } finally {
    throwIfInterrupted(signal);
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
  if (failedReason !== undefined) return { lost: failedReason };
  return { result: parseResult(String(returnvalue), task.name) };
}
