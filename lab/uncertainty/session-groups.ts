import { grown } from "../../core/grown.ts";
import type { BlockBatches } from "../run/block-stream.ts";
import { ContentSessions } from "./content-sessions.ts";

/**
 * Most groups. Sessions that begin one after the other share a cache, so that their hits depend on each other: they are drawn
 * together. With more groups the intervals contain the true difference less often (docs/uncertainty.md).
 */
const mostGroups = 12;

/** The requests of a trace in groups of whole sessions that begin one after the other, which a bootstrap draws. */
export interface SessionGroups {
  /** Group of each request, 0 .. `groups` − 1. */
  readonly groupOf: Uint32Array;
  readonly groups: number;
  readonly sessions: number;
  /** The trace has no sessions: they were inferred from its prompts. */
  readonly areInferred: boolean;
}

/** Groups requests by session; one more call of `batches` follows. */
export async function sessionGroups(source: BlockBatches): Promise<SessionGroups> {
  const numbers = new ContentSessions();
  let groupOf = new Uint32Array(1024);
  let requests = 0;
  let areInferred = false;
  for await (const { trace, blocks } of source.batches(true)) {
    areInferred ||= trace.optional.session === undefined;
    const end = requests + trace.requestCount;
    if (end > groupOf.length) groupOf = grown(groupOf, Math.max(end, 2 * groupOf.length));
    groupOf.set(numbers.of(trace, blocks), requests);
    requests = end;
  }
  const sessions = numbers.count;
  const groups = Math.min(sessions, mostGroups);
  groupOf = groupOf.subarray(0, requests).map((number) => Math.floor(((number - 1) * groups) / sessions));
  return { groupOf, groups, sessions, areInferred };
}
