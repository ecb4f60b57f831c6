import { InputError } from "../core/errors.ts";
import { grown } from "../core/grown.ts";
import type { TraceRow } from "../core/trace/trace.ts";
import { decimal, jsonIds, jsonLine, type TraceWriter, writeLines } from "./writer.ts";

const unitTokens = 16;
/** The type of requests without a category. */
const usualType = "text";

/**
 * Alibaba Cloud's format. A content id is written as the hash id of its block: as it always follows the same id, the chain
 * that readers make of it is the same content. Chat ids are the rows of the trace.
 */
export const qwenBailianWriter: TraceWriter = {
  name: "qwen-bailian",
  contents: ["blocks"],
  columns: ["keys", "session", "parent", "category"],
  hasGzip: true,
  write(target, source, options = {}) {
    const turns = new Turns();
    return writeLines(target, source, options, (row, index, unit) => {
      if (unit !== unitTokens)
        throw new InputError(`the blocks of the trace have ${unit} tokens, expected ${unitTokens} for qwen-bailian`);
      const { parent, turn } = turns.add(row);
      return jsonLine([
        ["chat_id", index],
        ["parent_chat_id", parent],
        ["timestamp", decimal(row.arrivalNs, 9)],
        ["input_length", row.inputTokens],
        ["output_length", row.outputTokens],
        ["type", JSON.stringify(row.category ? String(row.category) : usualType)],
        ["turn", turn],
        ["hash_ids", jsonIds(row.keys, options.idOf)],
      ]);
    });
  },
};

/** The parents of requests as the format states them: a session is a chain of parents. */
class Turns {
  #count = 0;
  /** By row: its session and the number of its turn, from 1. */
  #session = new Uint32Array(1024);
  #turn = new Uint32Array(1024);
  /** By session: the row of its last turn. */
  readonly #last = new Map<number, number>();

  /** A turn whose parent is not stated continues the one before it in its session. @throws InputError */
  add({ session = 0, parent = -1 }: TraceRow): { readonly parent: number; readonly turn: number } {
    const row = this.#count++;
    if (row === this.#turn.length) {
      this.#session = grown(this.#session, 2 * row);
      this.#turn = grown(this.#turn, 2 * row);
    }
    const before = parent >= 0 || session === 0 ? parent : (this.#last.get(session) ?? -1);
    if (before >= 0 && this.#session[before] !== session)
      throw new InputError(
        `request ${row} of session ${session} continues request ${before} of session ${this.#session[before]}: ` +
          "in qwen-bailian it would be of the same session",
      );
    const turn = before >= 0 ? this.#turn[before] + 1 : 1;
    this.#session[row] = session;
    this.#turn[row] = turn;
    if (session > 0) this.#last.set(session, row);
    return { parent: before, turn };
  }
}
