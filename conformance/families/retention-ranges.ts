import { prioritiesByBlock, type RetentionRange } from "../../policies/eviction/levels.ts";
import type { Family } from "../family.ts";
import { type Fields, integer, list, number, recordOf, Unsupported } from "../values.ts";

const maxBlocks = 2 ** 20;

/** TensorRT-LLM: priorities of token ranges become priorities of blocks. */
export const retentionRanges: Family = {
  name: "retention-ranges",
  configKeys: ["null"],
  ops: { per_block: { inputs: ["block_size", "ranges", "seq_len"], expects: { priorities: "plain" } } },
  start(config) {
    checkNull(config);
    return {
      run(_, { block_size, ranges, seq_len }) {
        const blockTokens = integer(block_size, "block_size", 1);
        const length = integer(seq_len, "seq_len");
        if (length / blockTokens > maxBlocks) throw new Unsupported(`more than ${maxBlocks} blocks`);
        const given = list(ranges, "ranges").map(range);
        return { priorities: prioritiesByBlock(given, blockTokens, length).map((priority) => priority ?? null) };
      },
    };
  },
};

/** The setting `null` describes the priority of a block in no range. */
function checkNull({ null: meaning = null }: Fields): void {
  if (meaning !== null && typeof meaning !== "string")
    throw new Unsupported("null is a value, expected text that describes a block without priority");
}

/** An object, or the tuple (start, end, priority, duration). */
function range(value: unknown): RetentionRange {
  const known = ["start", "end", "priority", "duration", "duration_ms"];
  const tuple = Array.isArray(value) && value.length >= 3 && value.length <= 4;
  const fields = tuple
    ? { start: value[0], end: value[1], priority: value[2], duration: value[3] }
    : recordOf(value, "a range", known);
  const { start, end, priority, duration, duration_ms = duration } = fields as Fields;
  const ms = duration_ms ?? undefined;
  return {
    start: integer(start, "start of a range"),
    end: end === undefined || end === null ? undefined : integer(end, "end of a range"),
    priority: integer(priority, "priority of a range"),
    duration: ms === undefined ? undefined : number(ms, "duration of a range"),
  };
}
