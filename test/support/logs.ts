import { createHash } from "node:crypto";
import type { EventLog } from "../../core/log/event-log.ts";
import { linesOf } from "../../laws/log-lines.ts";

/** The whole log in 64 letters; equal logs have equal digests. */
export function digestOf(log: EventLog): string {
  const hash = createHash("sha256");
  for (const line of linesOf(log)) hash.update(`${line}\n`);
  return hash.digest("hex");
}
