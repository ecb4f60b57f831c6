import { readFileSync } from "node:fs";
import { grouped } from "../core/counted.ts";
import { memoryOptions } from "../lab/out-of-memory.ts";
import { complain, exitNow } from "./output/print.ts";

/** Node reserves more than 1 GB of address space at its start, and more for threads and for the bundler of plug-in files. */
const leastKilobytes = 1_500_000;

/** Ends the program with one line if `ulimit -v` is too small for Node. */
export function checkAddressSpace(): void {
  const limit = addressSpaceLimit();
  if (limit === undefined || limit >= leastKilobytes * 1024) return;
  exitNow(complain(`${addressSpaceText(limit)}, expected at least ${grouped(leastKilobytes)}`, 2));
}

/** The message for a failed allocation. */
export function outOfMemory(): string {
  const limit = addressSpaceLimit();
  const cause = limit === undefined ? "" : `; ${addressSpaceText(limit)}`;
  const used = Math.round(process.memoryUsage.rss() / 2 ** 20);
  return `not enough memory for a trace or a cache of this size: ${grouped(used)} MB are in use${cause}; ${memoryOptions}`;
}

const addressSpaceText = (bytes: number) => `ulimit -v is ${grouped(Math.floor(bytes / 1024))} kB`;

/** The process's `ulimit -v` in bytes; undefined if it has none, or the system is not Linux. */
function addressSpaceLimit(): number | undefined {
  const [, soft] = /^Max address space +(\d+)/m.exec(textOf("/proc/self/limits")) ?? [];
  return soft === undefined ? undefined : Number(soft);
}

/** Address space that can be reserved, in bytes. */
export const addressSpaceLeft = (): number => (addressSpaceLimit() ?? Number.POSITIVE_INFINITY) - addressSpaceUsed();

/** Address space in use, in bytes. */
function addressSpaceUsed(): number {
  const [, kibibytes] = /^VmSize:\s+(\d+) kB/m.exec(textOf("/proc/self/status")) ?? [];
  return Number(kibibytes ?? 0) * 1024;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
