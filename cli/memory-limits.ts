import { totalmem } from "node:os";
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { grouped } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { memoryOptions } from "../lab/out-of-memory.ts";

const megabyte = 2 ** 20;
/** The original function: laws/nondeterminism.ts replaces it later. */
const residentBytes = process.memoryUsage.rss;

/** Limit of the memory that one call adds to the JavaScript heap, unless it processes a whole trace. */
const callBytes = 512 * megabyte;
/** Limit of large arrays in the heap: growth beyond 113 million elements, 900 MB, ends Node without an exception. */
const arrayBytes = 512 * megabyte;
/** Limits of use, as shares of the JavaScript heap and of the machine's memory. */
const heapShare = 0.75;
const memoryShare = 0.8;

const heapBytes = () => getHeapStatistics().used_heap_size;
const largeArrayBytes = () =>
  getHeapSpaceStatistics()
    .filter(({ space_name }) => space_name.endsWith("large_object_space"))
    .reduce((sum, { space_used_size }) => sum + space_used_size, 0);

/** The size in use; if it is over the limit, after a garbage collection. */
function withoutGarbage(size: () => number, limit: number): number {
  if (size() <= limit) return size();
  collectGarbage();
  return size();
}

/** Compares the memory in use with its limits, because Node ends without an exception beyond them. Results are messages. */
export class MemoryLimits {
  readonly #memoryBytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  #call: number | undefined;
  /** Heap in use at the first check of the call. */
  #heapBytes = 0;

  /** A message if a running call exceeds a limit, otherwise undefined. */
  ofCall(call: number, isForWholeTrace: boolean): string | undefined {
    if (call !== this.#call) this.#heapBytes = heapBytes();
    this.#call = call;
    const added = withoutGarbage(heapBytes, this.#heapBytes + callBytes) - this.#heapBytes;
    if (added > callBytes && !isForWholeTrace)
      return `${inMegabytes(added)} added to the JavaScript heap in one call, limit ${inMegabytes(callBytes)}`;
    const arrays = withoutGarbage(largeArrayBytes, arrayBytes);
    if (arrays <= arrayBytes) return undefined;
    return `${inMegabytes(arrays)} in arrays of the JavaScript heap, limit ${inMegabytes(arrayBytes)}`;
  }

  /** A message if the process exceeds a limit, otherwise undefined. */
  ofProcess(most = { heapShare, memoryShare }): string | undefined {
    const heapLimit = getHeapStatistics().heap_size_limit;
    const heap = withoutGarbage(heapBytes, heapLimit * most.heapShare);
    if (heap > heapLimit * most.heapShare) return `the JavaScript heap is full, ${share(heap, heapLimit)}`;
    const resident = residentBytes();
    if (resident > this.#memoryBytes * most.memoryShare)
      return `the memory is full, ${share(resident, this.#memoryBytes)}`;
    return undefined;
  }
}

const limits = new MemoryLimits();
/** Beyond these shares Node or the system would end the program without a message. */
const mostInUse = { heapShare: 0.9, memoryShare: 0.95 };

/** Called between the slices of a long call. @throws InputError if the memory is nearly exhausted */
export function checkMemoryInUse(): void {
  const full = limits.ofProcess(mostInUse);
  if (full !== undefined) throw new InputError(`${full}; ${memoryOptions}`);
}

const inMegabytes = (bytes: number) => `${grouped(Math.round(bytes / megabyte))} MB`;
const share = (bytes: number, of: number) =>
  `${grouped(Math.round(bytes / megabyte))} of ${inMegabytes(of)} are in use`;

let collect: (() => void) | undefined;

function collectGarbage(): void {
  if (!collect) setFlagsFromString("--expose-gc");
  collect ??= runInNewContext("gc") as () => void;
  collect();
}
