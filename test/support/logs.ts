import { createHash } from "node:crypto";
import type { EventLog } from "../../core/log/event-log.ts";
import { linesOf } from "../../laws/log-lines.ts";

/** SHA-256 digest of the whole log, in hexadecimal. */
export function digestOf(log: EventLog): string {
  const hash = createHash("sha256");
  for (const line of linesOf(log)) hash.update(`${line}\n`);
  return hash.digest("hex");
}
