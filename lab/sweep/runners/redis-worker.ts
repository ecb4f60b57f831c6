import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "bullmq";
import { Redis } from "ioredis";
import { InputError } from "../../../core/errors.ts";
import { type ShardOptions, ShardRuns } from "../run-shard.ts";
import {
  checkRedis,
  lasting,
  lockMs,
  queueName,
  queueRetries,
  type ShardData,
  shownAddress,
  stalledMs,
} from "./redis-queue.ts";

const closeMs = 1000;

export interface RedisWorkerOptions extends ShardOptions {
  readonly signal: AbortSignal;
  /** Called with a line for each shard, and when the connection is lost or found. */
  readonly note: (text: string) => void;
}

/**
 * Runs the shards of a Redis, one at a time, until the signal is aborted.
 *
 * @throws InputError if it cannot connect, or a shard needs a file that this machine does not have, or has with other content
 */
export async function workOnRedis(address: string, { note, ...options }: RedisWorkerOptions): Promise<void> {
  await checkRedis(address);
  const { signal } = options;
  const shards = new ShardRuns(options);
  const connection = new Redis(address, lasting);
  let isLost = false;
  let isEnding = false;
  connection.on("error", () => {});
  connection.on("close", () => {
    if (!isLost && !isEnding) note(`the connection to ${shownAddress(address)} was lost; waiting for it`);
    isLost = true;
  });
  connection.on("ready", () => {
    if (isLost) note(`connected to ${shownAddress(address)} again`);
    isLost = false;
  });
  let end: (refusal?: InputError) => void = () => {};
  const ended = new Promise<InputError | undefined>((resolve) => {
    end = resolve;
  });
  signal.addEventListener("abort", () => end(), { once: true });
  const worker = new Worker<ShardData, string>(
    queueName,
    async ({ data, id }) => {
      try {
        const result = await shards.run(data.text, `shard ${id}`);
        note(`ran shard ${id}`);
        return result;
      } catch (error) {
        // Another worker may have the files that this one lacks.
        if (error instanceof InputError) end(error);
        throw error;
      }
    },
    { connection, concurrency: 1, lockDuration: lockMs, stalledInterval: stalledMs, maxStalledCount: queueRetries },
  );
  worker.on("error", () => {});
  try {
    const refusal = await ended;
    isEnding = true;
    if (refusal) throw refusal;
  } finally {
    // Waits until the current shard, which was stopped or refused, has returned to the queue.
    // Without a connection, closing would wait for one.
    await (isLost ? Promise.race([worker.close(true), sleep(closeMs)]) : worker.close()).catch(() => {});
    connection.disconnect();
  }
}
