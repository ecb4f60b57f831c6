import { closeSync, openSync, writeSync } from "node:fs";
import { url as inspectorUrl } from "node:inspector";
import { devNull } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { grouped } from "../core/counted.ts";
import { type RunningCall, runningCalls } from "../lab/user-plugins/running-calls.ts";
import { fileOf } from "../lab/user-plugins/user-code.ts";
import { addressSpaceLeft } from "./address-space.ts";
import { MemoryLimits } from "./memory-limits.ts";
import { exitNow, oneLine } from "./output/print.ts";
import { type WatchData, watchThread } from "./plugin-watch-thread.ts";

/** Time limits of a call of plug-in code, in ms. */
interface TimeLimits {
  readonly callMs: number;
  /** Of a call that reads or writes a whole trace. */
  readonly wholeTraceMs: number;
  /** Of a call that blocks outside of JavaScript. */
  readonly killMs: number;
}

const defaultLimits: TimeLimits = { callMs: 10_000, wholeTraceMs: 60_000, killMs: 60_000 };
const wholeTrace: ReadonlySet<string> = new Set(["prepare", "open", "batches"]);

const pollMs = 50;
const lookMs = 500;
const growthBytes = 16 * 2 ** 20;
/** Address space that the thread reserves, with a margin for the plug-ins. */
const threadBytes = 2 ** 30;

/** The key of the global symbol under which the watch thread finds the function `look`. */
const key = "kvlab.look-at-plug-ins";

/**
 * Starts the watch: from then on the program ends with one line if a call of plug-in code exceeds a limit of time or memory.
 * A thread polls `runningCalls`, because the main thread handles no event during such a call.
 */
export function watchPlugins(limits = defaultLimits): void {
  // With a debugger a call may stop at a breakpoint; without address space for the thread, Node would end the process.
  if (inspectorUrl() !== undefined || addressSpaceLeft() < threadBytes) return;
  Object.defineProperty(globalThis, Symbol.for(key), { value: looking(limits) });
  const connected = new Int32Array(new SharedArrayBuffer(4));
  const workerData: WatchData = {
    ...{ outermost: runningCalls.outermost, connected },
    look: `globalThis[Symbol.for(${JSON.stringify(key)})]`,
    ...{ pollMs, lookMs, growthBytes, killMs: limits.killMs },
    smallBytes: Math.min(2 ** 30, getHeapStatistics().heap_size_limit / 2),
  };
  // esbuild, through which tsx loads this program, adds calls of `__name` to the function.
  const program = `const __name = (it) => it; (${watchThread})()`;
  const thread = new Worker(program, {
    eval: true,
    execArgv: [],
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  // Without the thread plug-ins run unwatched.
  thread.on("error", () => {});
  thread.unref();
  process.on("exit", () => disconnect(connected));
}

/**
 * Ends the watch. Node must not exit while the thread is connected: waits until it has disconnected, and then until the main
 * thread has handled that, which it does between two iterations of a loop.
 */
function disconnect(connected: Int32Array): void {
  Atomics.store(runningCalls.outermost, 0, -1);
  const waitTurn = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  if (isEnding || Atomics.load(connected, 0) === 0) return;
  for (let turn = 0; turn < 400 && Atomics.load(connected, 0) === 1; turn++) waitTurn();
  for (let turn = 0; turn < 10; turn++) waitTurn();
}

/** Whether `end` has been called: in the middle of a look, so that the thread stays connected. */
let isEnding = false;

/** Node would print a line, because the watch thread is connected as a debugger. */
function silence(): void {
  closeSync(2);
  openSync(devNull, "w");
}

/** The function that is evaluated in the middle of a call, which has been running for so long. */
function looking({ callMs, wholeTraceMs }: TimeLimits): (runningMs: number) => void {
  const memory = new MemoryLimits();
  let innermostBefore = 0;
  return (runningMs) => {
    const calls = runningCalls.all;
    const [outermost] = calls;
    const innermost = calls.at(-1);
    if (!outermost || !innermost) {
      const full = memory.ofProcess();
      if (full) end(`${fileOf(undefined)}: ${full}`);
      return;
    }
    const isForWholeTrace = wholeTrace.has(outermost.method);
    if (runningMs >= (isForWholeTrace ? wholeTraceMs : callMs)) {
      const stuck = innermost.number === innermostBefore ? innermost : outermost;
      end(`${describe(stuck)} has not returned after ${grouped(Math.floor(runningMs / 1000))} s`);
    }
    innermostBefore = innermost.number;
    const exceeded = memory.ofCall(outermost.number, isForWholeTrace) ?? memory.ofProcess();
    if (exceeded) end(`${describe(innermost)}: ${exceeded}`);
  };
}

const describe = ({ code, method }: RunningCall) => `${code.file}: ${code.describe(method)}`;

/** Ends the program with one line: what other handlers of `exit` print is lost. */
function end(message: string): never {
  const eraseLine = process.stderr.isTTY ? "\r\x1b[K" : "";
  writeSync(2, eraseLine + oneLine(message));
  isEnding = true;
  silence();
  exitNow(2);
}
