import { createHash } from "node:crypto";
import type { EventLog } from "../../core/events.ts";

/** Every event as a line, in order. */
export function linesOf(log: EventLog): string[] {
  return Array.from({ length: log.count }, (_, at) => log.line(at));
}

/** The whole log in 64 letters; equal logs have equal digests. */
export function digestOf(log: EventLog): string {
  const hash = createHash("sha256");
  for (const line of linesOf(log)) hash.update(`${line}\n`);
  return hash.digest("hex");
}
