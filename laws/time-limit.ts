import { createContext, Script } from "node:vm";

const outside = createContext({ run: undefined as (() => void) | undefined });
const script = new Script("run()");

/** The original function: nondeterminism.ts replaces it later. */
const { cpuUsage } = process;

/** Most attempts if the machine was too busy to run the function. */
const mostTries = 5;

/**
 * Calls a function and terminates it if it does not return in time; its `finally` blocks do not run then. Returns whether
 * it returned. The time limit is that of a vm script, which also covers everything that the script calls. If the machine
 * was busy with other work, the function is called again.
 */
export function withinTime(limitMs: number, run: () => void): boolean {
  outside["run"] = run;
  try {
    for (let tries = 1; ; tries++) {
      const before = cpuUsage();
      if (ends(limitMs)) return true;
      const { user, system } = cpuUsage(before);
      if ((user + system) / 1000 > limitMs / 2 || tries === mostTries) return false;
    }
  } finally {
    outside["run"] = undefined;
  }
}

function ends(limitMs: number): boolean {
  try {
    script.runInContext(outside, { timeout: limitMs });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException | undefined)?.code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return false;
    throw error;
  }
}
