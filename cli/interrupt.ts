import { setMaxListeners } from "node:events";
import { exitNow } from "./output/print.ts";

const signals = ["SIGINT", "SIGTERM"] as const;
const controller = new AbortController();
// Several engines may listen to one signal.
setMaxListeners(0, controller.signal);

/** Aborted by the first SIGINT or SIGTERM. A second one ends the program at once. */
export const interruption: AbortSignal = controller.signal;

/** Active calls in which an engine's threads may compute. */
let engineCalls = 0;
/** Exit code that `endSoon` set. */
let exitCode: number | undefined;
/** Signals have the system's default action. */
let isReleased = false;

function onSignal(): void {
  if (!interruption.aborted) {
    controller.abort();
    return;
  }
  if (engineCalls > 0) endBySystem();
  exitNow(130);
}

/** Ends by a signal, because `process.exit` crashes while another thread computes a step. Shells report exit code 130. */
function endBySystem(): never {
  process.emit("exit", 130);
  for (const signal of signals) process.off(signal, onSignal);
  process.kill(process.pid, "SIGINT");
  exitNow(130);
}

/** Makes SIGINT and SIGTERM abort `interruption`. */
export function watchSignals(): void {
  for (const signal of signals) process.on(signal, onSignal);
}

/**
 * Restores the system's default action of SIGINT and SIGTERM, which ends the program at once: plug-in code may loop
 * forever, and no signal handler would run then.
 */
export function releaseSignals(): void {
  if (isReleased) return;
  isReleased = true;
  for (const signal of signals) process.off(signal, onSignal);
}

/** Handles signals again during `act`, which runs no plug-in code. */
export async function watchingSignals<Result>(act: () => Promise<Result>): Promise<Result> {
  if (isReleased) watchSignals();
  try {
    return await act();
  } finally {
    if (isReleased) for (const signal of signals) process.off(signal, onSignal);
  }
}

/** Runs a call that may use an engine, so that the program does not exit while the engine's threads compute. */
export async function withEngine<Result>(act: () => Promise<Result>): Promise<Result> {
  engineCalls++;
  try {
    return await act();
  } finally {
    engineCalls--;
    if (exitCode !== undefined && engineCalls === 0) exitNow(exitCode);
  }
}

/** True after `endSoon`: no further output is written. */
export const isEnding = (): boolean => exitCode !== undefined;

/** Ends the program at once, or as soon as the engine has stopped. */
export function endSoon(code: number): void {
  if (engineCalls === 0) exitNow(code);
  exitCode = code;
  controller.abort();
}
