import { createContext, Script } from "node:vm";

const outside = createContext({ run: undefined as (() => void) | undefined });
const script = new Script("run()");

/**
 * Calls a function and ends it, whatever it does, if it has not returned in time; its `finally` blocks do not run then.
 * Returns whether it came to its end. The limit is a script's, which holds for all that the script calls.
 */
export function withinTime(limitMs: number, run: () => void): boolean {
  outside["run"] = run;
  try {
    script.runInContext(outside, { timeout: limitMs });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException | undefined)?.code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return false;
    throw error;
  } finally {
    outside["run"] = undefined;
  }
}
