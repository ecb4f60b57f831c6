import { InputError } from "../../../core/errors.ts";
import { version } from "../../package.ts";

/** The queue of this version: workers of other versions take none of its shards. */
export const queueName = `kvlab-sweep-${version}`;

/** The fields of BullMQ's `Job` for a shard. */
export interface ShardData {
  readonly text: string;
}

/** A worker that does not renew its lock for so long has ended; its shard runs again. */
export const lockMs = 10_000;
export const stalledMs = 2_000;

/** Restarts of one shard by the queue itself. */
export const queueRetries = 3;

/** Waits between attempts to connect. */
const retryStrategy = (attempt: number) => Math.min(100 * attempt, 1000);

/** Options of a connection that outlives a restart of the server. */
export const lasting = { maxRetriesPerRequest: null, retryStrategy } as const;

/** The address without a password. */
export const shownAddress = (address: string): string => address.replace(/\/\/[^@/]*@/, "//…@");

/** Checks that a Redis can be reached. @throws InputError */
export async function checkRedis(address: string): Promise<void> {
  if (!/^rediss?:\/\/./.test(address) || !URL.canParse(address))
    throw new InputError(`"${shownAddress(address)}": expected an address such as redis://127.0.0.1:6379`);
  const { Redis } = await import("ioredis");
  const client = new Redis(address, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 5000 });
  let problem = "";
  client.on("error", (error: NodeJS.ErrnoException) => {
    problem = error.code ?? error.message;
  });
  try {
    await client.connect();
    await client.ping();
  } catch (error) {
    throw new InputError(`${shownAddress(address)}: cannot connect (${problem || (error as Error).message})`);
  } finally {
    client.disconnect();
  }
}
