import { grown } from "../../core/grown.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { Sessions } from "../../core/trace/sessions.ts";
import type { Trace } from "../../core/trace/trace.ts";

/**
 * Numbers the sessions of a trace from 1; `of` is called with all batches in order. In a trace without sessions they are inferred: a
 * request belongs to the session whose last prompt it extends, which is the case if all full blocks of that prompt are a prefix
 * of its own. Of several requests that extend the same prompt, the first continues the session; otherwise all sessions with
 * one system prompt could be one.
 *
 * Memory for inferred sessions: 4 bytes per content id.
 */
export class ContentSessions {
  count = 0;
  readonly #named = new Sessions();
  /** By content id: the session whose last prompt ends with this block; 0 = none. */
  #endedBy = new Uint32Array(1024);

  /** By request of a batch: the number of its session. */
  of(trace: Trace, { keys, start, promptBlocks, blockTokens, distinct }: BlockColumns): Uint32Array {
    if (trace.optional.session !== undefined) return this.#counted(this.#named.of(trace));
    if (distinct > this.#endedBy.length)
      this.#endedBy = grown(this.#endedBy, Math.max(distinct, 2 * this.#endedBy.length));
    const endedBy = this.#endedBy;
    return promptBlocks.map((blocks, r) => {
      const last = start[r] + Math.min(blocks, Math.floor(trace.inputTokens[r] / blockTokens)) - 1;
      let at = last;
      while (at >= start[r] && endedBy[keys[at]] === 0) at--;
      const session = at >= start[r] ? endedBy[keys[at]] : ++this.count;
      if (at >= start[r]) endedBy[keys[at]] = 0;
      if (last >= start[r]) endedBy[keys[last]] = session;
      return session;
    });
  }

  #counted(numbers: Uint32Array): Uint32Array {
    for (const number of numbers) this.count = Math.max(this.count, number);
    return numbers;
  }
}
