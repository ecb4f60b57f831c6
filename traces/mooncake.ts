import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import type { Trace, TraceRow } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import { DenseIds } from "./dense-ids.ts";
import { Notes, nanosPer, type OpenTraceOptions, type TraceFormat } from "./format.ts";
import { type Field, JsonLineScanner, requiredOf, WideIntegers } from "./json-lines.ts";
import { lineBlocks } from "./lines.ts";
import { OptionalFields, optionalFields } from "./optional-fields.ts";
import { noPredecessor, Predecessors } from "./predecessors.ts";
import { withRateNotes } from "./rates.ts";
import {
  ArrivalClock,
  expectedOutputTokens,
  expectedPromptTokens,
  type LineReader,
  mostTokens,
  requestBatches,
} from "./requests.ts";

const defaultUnitTokens = 512;
const sampleRequests = 100;
const largestUnitBits = 20;
/** A unit is reported as inferred if the largest that fits the lengths exceeds the smallest by this factor. */
const ambiguousUnits = 1.25;

/**
 * The format's own fields, then fields that other tools add and that `writeMooncake` uses for columns without a field in
 * the format. All other fields are ignored.
 */
const mooncakeFields = {
  timestamp: { expected: "a number of milliseconds, 0 or more", required: true },
  input_length: { expected: expectedPromptTokens, required: true },
  output_length: { expected: expectedOutputTokens, required: true },
  hash_ids: { expected: "an array of integers from 0 to 18446744073709551615", required: true },
  ...optionalFields,
  block_size: { expected: "the tokens of a hash id, the same for all requests" },
} satisfies Record<string, Field>;
type FieldName = keyof typeof mooncakeFields;

/**
 * Mooncake's published traces, one request a line:
 * `{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [block, …]}`.
 * A hash id identifies a block of 512 tokens together with all tokens before it; the last block may be partial. With
 * another block size, `unitTokens` states it (an integer of 2 or more); by default it is 512, or the power of two that the
 * first requests agree on.
 */
export const mooncake: TraceFormat = {
  name: "mooncake",
  about: "JSON lines: timestamp (ms), lengths and the content ids of 512-token blocks",
  source: "Mooncake (FAST '25), github.com/kvcache-ai/Mooncake",
  shape: {
    kinds: ["json-lines"],
    needs: requiredOf(mooncakeFields),
    // Qwen-Bailian has the same fields, but seconds instead of milliseconds and blocks of 16.
    foreign: ["chat_id", "parent_chat_id"],
  },
  options: ["unitTokens", "timeUnit", "sort"],
  open(files, options) {
    const { unitTokens, signal, sort } = options;
    if (unitTokens !== undefined && !(Number.isInteger(unitTokens) && unitTokens >= 2 && unitTokens <= mostTokens))
      throw new InputError(`unit tokens is ${unitTokens}, expected an integer from 2 to ${mostTokens}`);
    const notes = new Notes();
    return {
      format: "mooncake",
      files,
      content: "blocks",
      notes: notes.all,
      async *batches(): AsyncGenerator<Trace> {
        const unit = unitTokens ?? (await findUnitTokens(files[0], notes, signal));
        const reader = new MooncakeReader(unit, options);
        yield* withRateNotes(requestBatches(files, reader, { signal, sort, notes }), files, notes, "timeUnit");
      },
    };
  },
};

/**
 * Tokens of a hash id: the field `block_size` if present, else 512, unless the first requests contradict 512 and agree on
 * another power of two. More than one id per request fits at most one power of two; requests of one block decide nothing.
 */
async function findUnitTokens(file: string, notes: Notes, signal?: AbortSignal): Promise<number> {
  const { lengths, blockSize } = await firstLengths(file, signal);
  if (blockSize !== undefined) return blockSize;
  // The lengths fit units from `least` to `most` tokens.
  const least = Math.max(2, ...lengths.map(([tokens, ids]) => Math.ceil(tokens / ids)));
  const most = Math.min(...lengths.map(([tokens, ids]) => (ids > 1 ? Math.ceil(tokens / (ids - 1)) - 1 : Infinity)));
  const fits = (unit: number) => unit >= least && unit <= most;
  const powers = Array.from({ length: largestUnitBits }, (_, i) => 2 ** (i + 1));
  if (fits(defaultUnitTokens) || most === Infinity) return defaultUnitTokens;
  const unit = powers.find(fits);
  if (unit !== undefined && most > least * ambiguousUnits)
    notes.add(
      `${shownPath(file)}: hash ids are read as blocks of ${unit} tokens, but the first ${counted(lengths.length, "request")} ` +
        `would fit any size from ${least} to ${most}; --unit states the size`,
    );
  return unit ?? defaultUnitTokens;
}

interface FirstLengths {
  readonly lengths: [tokens: number, ids: number][];
  blockSize?: number;
}

/** Input length and number of ids of the first requests. Stops at an invalid line, which `MooncakeReader` reports. */
async function firstLengths(file: string, signal?: AbortSignal): Promise<FirstLengths> {
  const first: FirstLengths = { lengths: [] };
  const ids = new WideIntegers();
  const { input_length, hash_ids, block_size } = mooncakeFields;
  const scan = new JsonLineScanner({ input_length, hash_ids, block_size });
  try {
    for await (const block of lineBlocks(file, signal, true)) {
      while (block.next()) {
        scan.begin(block);
        if (scan.isBlank) continue;
        let tokens = 0;
        for (let name = scan.next(); name; name = scan.next()) {
          if (name === "input_length") tokens = scan.integer(1, mostTokens);
          else if (name === "hash_ids") scan.wideIntegers(ids);
          else first.blockSize = scan.integer(2, mostTokens);
        }
        first.lengths.push([tokens, ids.length]);
        if (first.lengths.length === sampleRequests) return first;
      }
    }
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
  }
  return first;
}

class MooncakeReader implements LineReader {
  readonly unitTokens: number;
  readonly scan = new JsonLineScanner<FieldName>(mooncakeFields);
  readonly #clock: ArrivalClock;
  readonly #hashIds = new WideIntegers();
  readonly #ids = new DenseIds();
  readonly #predecessors = new Predecessors();
  #keys = new Uint32Array(1024);
  readonly #optional = new OptionalFields();
  /** The file states its unit, as `writeMooncake` does: then a partial last block may have no id. */
  #isUnitStated = false;

  constructor(unitTokens: number, { timeUnit, sort }: OpenTraceOptions) {
    this.unitTokens = unitTokens;
    this.#clock = new ArrivalClock(nanosPer[timeUnit ?? "ms"], {
      isUnitGiven: timeUnit !== undefined,
      anyOrder: sort === true,
    });
  }

  row(): TraceRow {
    const { scan } = this;
    let timestamp = 0;
    const row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: [] };
    for (let name = scan.next(); name; name = scan.next()) {
      if (name === "timestamp") {
        timestamp = scan.number();
        if (!(timestamp >= 0 && timestamp < Number.POSITIVE_INFINITY)) throw scan.unexpected();
      } else if (name === "input_length") row.inputTokens = scan.integer(1, mostTokens);
      else if (name === "output_length") row.outputTokens = scan.integer(0, mostTokens);
      else if (name === "hash_ids") scan.wideIntegers(this.#hashIds);
      else if (this.#optional.isOptional(name)) this.#optional.read(name, scan, row);
      else this.#checkBlockSize();
    }
    row.arrivalNs = this.#clock.arrivalNs(timestamp, "timestamp", scan);
    this.#optional.end(row, scan, "output_length");
    this.#numberIds(row.inputTokens);
    row.keys = this.#keys;
    row.keyCount = this.#hashIds.length;
    return row;
  }

  #checkBlockSize(): void {
    const { scan } = this;
    const blockSize = scan.integer(2, mostTokens);
    if (blockSize !== this.unitTokens) throw scan.error(`block_size is ${blockSize}, expected ${this.unitTokens}`);
    this.#isUnitStated = true;
  }

  /** Numbers the ids densely. Checks that their count follows from the length and that each id has one predecessor. */
  #numberIds(inputTokens: number): void {
    const { length, high, low } = this.#hashIds;
    const expected = Math.ceil(inputTokens / this.unitTokens);
    const isWhole = this.#isUnitStated && length === Math.floor(inputTokens / this.unitTokens);
    if (length !== expected && !isWhole)
      throw this.scan.error(
        `hash_ids has ${length} ids, expected ${expected}: input_length is ${inputTokens}, in blocks of ${this.unitTokens}`,
      );
    if (length > this.#keys.length) this.#keys = new Uint32Array(length * 2);
    const ids = this.#ids;
    const keys = this.#keys;
    const predecessors = this.#predecessors;
    let previous = noPredecessor;
    for (let i = 0; i < length; i++) {
      const known = ids.count;
      const key = ids.numberOf(high[i], low[i]);
      if (key === known) predecessors.add(previous);
      else if (predecessors.of(key) !== previous) throw this.#otherPredecessor(i, key, previous);
      keys[i] = previous = key;
    }
  }

  /** Equal predecessors imply equal positions, by induction, so that comparing the predecessor is enough. */
  #otherPredecessor(i: number, key: number, previous: number): Error {
    const after = (id: number) => (id === noPredecessor ? "at the start" : `after ${this.#ids.textOf(id)}`);
    return this.scan.error(
      `hash_ids[${i}] is ${this.#hashIds.text(i)} ${after(previous)}, expected ${after(this.#predecessors.of(key))} as before: ` +
        "an id identifies a block and all tokens before it",
    );
  }
}
