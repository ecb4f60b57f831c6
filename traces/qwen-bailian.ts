import type { TraceRow } from "../core/trace/trace.ts";
import { DenseIds } from "./dense-ids.ts";
import { Notes, nanosPer, type OpenTraceOptions, type TraceFormat } from "./format.ts";
import { type Field, JsonLineScanner, requiredOf, WideIntegers } from "./json-lines.ts";
import { numbered } from "./optional-fields.ts";
import { withRateNotes } from "./rates.ts";
import {
  ArrivalClock,
  expectedOutputTokens,
  expectedPromptTokens,
  type LineReader,
  mostTokens,
  requestBatches,
} from "./requests.ts";

const unitTokens = 16;
const chat = `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`;

const qwenFields = {
  chat_id: { expected: chat, required: true },
  parent_chat_id: { expected: `${chat}, or -1`, required: true },
  timestamp: { expected: "a number of seconds, 0 or more", required: true },
  input_length: { expected: expectedPromptTokens, required: true },
  output_length: { expected: expectedOutputTokens, required: true },
  type: { expected: "a string", required: true },
  turn: { expected: "an integer, 1 or more", required: true },
  hash_ids: { expected: "an array of integers from 0 to 18446744073709551615", required: true },
} satisfies Record<string, Field>;
type FieldName = keyof typeof qwenFields;

/**
 * Alibaba Cloud's traces of Qwen models, one request a line. A hash id identifies the 16 tokens of a block, without those
 * before it; the content id of a block is that of its hash id after the block before.
 */
export const qwenBailian: TraceFormat = {
  name: "qwen-bailian",
  about: "JSON lines: chat ids, timestamp (s), lengths, type and the hash ids of 16-token blocks",
  source: "KVCache Cache in the Wild (ATC '25), github.com/alibaba-edu/qwen-bailian-usagetraces-anon",
  shape: { kinds: ["json-lines"], needs: requiredOf(qwenFields) },
  options: ["timeUnit", "sort"],
  open(files, options) {
    const { signal, sort } = options;
    const notes = new Notes();
    return {
      format: "qwen-bailian",
      files,
      content: "blocks",
      notes: notes.all,
      batches() {
        const requests = requestBatches(files, new QwenReader(options), { signal, sort, notes });
        return withRateNotes(requests, files, notes, "timeUnit");
      },
    };
  },
};

class QwenReader implements LineReader {
  readonly unitTokens = unitTokens;
  readonly scan = new JsonLineScanner<FieldName>(qwenFields);
  readonly #clock: ArrivalClock;
  readonly #hashIds = new WideIntegers();
  readonly #ids = new ChainedIds();
  readonly #chats = new Chats();
  readonly #types = new Map<string, number>();
  #keys = new Uint32Array(1024);

  constructor({ timeUnit, sort }: OpenTraceOptions) {
    this.#clock = new ArrivalClock(nanosPer[timeUnit ?? "s"], {
      isUnitGiven: timeUnit !== undefined,
      anyOrder: sort === true,
    });
  }

  row(): TraceRow {
    const { scan } = this;
    const row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };
    let [chatId, parentId, timestamp] = [0, -1, 0];
    for (let name = scan.next(); name; name = scan.next()) {
      if (name === "chat_id") chatId = scan.integer(0, Number.MAX_SAFE_INTEGER);
      else if (name === "parent_chat_id") parentId = scan.integer(-1, Number.MAX_SAFE_INTEGER);
      else if (name === "timestamp") {
        timestamp = scan.number();
        if (!(timestamp >= 0 && timestamp < Number.POSITIVE_INFINITY)) throw scan.unexpected();
      } else if (name === "input_length") row.inputTokens = scan.integer(1, mostTokens);
      else if (name === "output_length") row.outputTokens = scan.integer(0, mostTokens);
      else if (name === "type") row.category = numbered(this.#types, this.#type(), 1);
      else if (name === "turn") scan.integer(1, mostTokens);
      else scan.wideIntegers(this.#hashIds);
    }
    row.arrivalNs = this.#clock.arrivalNs(timestamp, "timestamp", scan);
    row.keys = this.#contentIds(row.inputTokens);
    if (chatId === parentId) throw scan.error(`parent_chat_id is ${parentId}, expected another one than chat_id`);
    const { session, parent } = this.#chats.add(chatId, parentId);
    row.session = session;
    row.parent = parent;
    return row;
  }

  #type(): string {
    const text = this.scan.scalarText();
    if (!text.startsWith('"')) throw this.scan.unexpected();
    return text;
  }

  /** The partial last block may have an id or none. */
  #contentIds(inputTokens: number): Uint32Array {
    const { length, high, low } = this.#hashIds;
    const blocks = Math.ceil(inputTokens / unitTokens);
    if (length !== blocks && length !== Math.floor(inputTokens / unitTokens))
      throw this.scan.error(
        `hash_ids has ${length} ids, expected ${blocks}: input_length is ${inputTokens}, in blocks of ${unitTokens}`,
      );
    if (length > this.#keys.length) this.#keys = new Uint32Array(length * 2);
    const keys = this.#keys;
    let above: number | undefined;
    for (let i = 0; i < length; i++) keys[i] = above = this.#ids.numberOf(above, high[i], low[i]);
    return keys.subarray(0, length);
  }
}

/** Numbers prefixes whose blocks have ids of their own: a prefix is the prefix before its last block, and that block's id. */
class ChainedIds {
  readonly #blocks = new DenseIds();
  readonly #prefixes = new DenseIds();

  /** The number of the prefix that ends with this block, after the prefix `above`; undefined: at the start. */
  numberOf(above: number | undefined, high: number, low: number): number {
    return this.#prefixes.numberOf(above === undefined ? 0 : above + 1, this.#blocks.numberOf(high, low));
  }
}

/** Recent chats: a turn follows its parent within hours, so that older ones are dropped to bound the memory. */
const chatsKept = 1 << 20;

interface Chat {
  readonly session: number;
  readonly row: number;
}

/** Finds a turn's conversation and previous turn by its parent's chat id. */
class Chats {
  /** Chats by id in two generations: when the newer one is full, the older one is dropped. */
  #newer = new Map<number, Chat>();
  #older = new Map<number, Chat>();
  #rows = 0;
  #sessions = 0;

  /** Adds the next row. Turns whose parent is not in the trace share a session, without a previous turn. */
  add(chatId: number, parentId: number): { readonly session: number; readonly parent: number } {
    const row = this.#rows++;
    let parent = parentId < 0 ? undefined : (this.#newer.get(parentId) ?? this.#older.get(parentId));
    if (parent === undefined) {
      parent = { session: ++this.#sessions, row: -1 };
      if (parentId >= 0) this.#set(parentId, parent);
    }
    this.#set(chatId, { session: parent.session, row });
    return { session: parent.session, parent: parent.row };
  }

  #set(id: number, chat: Chat): void {
    if (this.#newer.size >= chatsKept) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(id, chat);
  }
}
