import { InputError } from "../../core/errors.ts";
import { ExecutorError, UnavailableError } from "../../engine/executor.ts";
import { yieldToEvents } from "../control.ts";

/** The result of one check of `kvlab doctor`. */
export interface Finding {
  readonly what: string;
  readonly ok: boolean;
  readonly found: string;
  /** The finding is about a device that a machine may lack: it does not decide whether the checks pass. */
  readonly optional?: true;
}

/**
 * Runs a check; the finding has its result, or the message of its error. A device that the machine lacks is optional.
 *
 * @throws Interrupted if the signal is aborted
 */
export async function finding(
  signal: AbortSignal | undefined,
  what: string,
  look: () => Promise<string> | string,
): Promise<Finding> {
  await yieldToEvents(signal);
  try {
    return { what, ok: true, found: await look() };
  } catch (error) {
    if (error instanceof UnavailableError)
      return { what, ok: false, optional: true, found: `not available: ${error.message}` };
    if (error instanceof InputError || error instanceof ExecutorError) return { what, ok: false, found: error.message };
    throw error;
  }
}

/** Bytes in the largest unit of which there is at least one. */
export function byteSize(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(bytes) / 10)));
  return step === 0 ? `${bytes} bytes` : `${(bytes / 1024 ** step).toFixed(1)} ${units[step]}`;
}
