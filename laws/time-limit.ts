import { createContext, Script } from "node:vm";

const outside = createContext({ run: undefined as (() => void) | undefined });
const script = new Script("run()");

/** Taken before anybody replaces it. */
const { cpuUsage } = process;

/** How often a run may be begun again because the machine had no time for it. */
const mostTries = 5;

/**
 * Calls a function and ends it, whatever it does, if it has not returned in time; its `finally` blocks do not run then.
 * Returns whether it came to its end. The limit is a script's, which holds for all that the script calls. On a machine
 * that was busy with something else the function is called again.
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
