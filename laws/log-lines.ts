import type { EventLog } from "../core/log/event-log.ts";

/** Every event as a line, in order. */
export function linesOf(log: EventLog): string[] {
  return Array.from({ length: log.count }, (_, at) => log.line(at));
}
