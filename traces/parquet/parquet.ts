import { InputError, TraceError } from "../../core/errors.ts";
import { type Trace, TraceBuilder, type TraceContent, type TraceRow } from "../../core/trace/trace.ts";
import { openForRandomAccess, shownPath } from "../bytes.ts";
import type { TraceFormat } from "../format.ts";
import { BlockKeys } from "./block-keys.ts";
import type { Column, Numbers } from "./column.ts";
import { type Group, ParquetFile } from "./read.ts";
import { generatedColumn, keysColumn, metadataKeys, type NumberColumn, numberColumns } from "./schema.ts";

const mostToken = 2 ** 31 - 1;

/**
 * kvlab's Parquet schema for traces, one row per request: docs/trace-format.md. A file of another program is read if it has the
 * columns; `unitTokens` states its unit where the metadata do not.
 */
export const parquet: TraceFormat = {
  name: "parquet",
  about: "Parquet: one row per request, with every column of a trace",
  source: "kvlab, docs/trace-format.md",
  shape: { kinds: ["parquet"], needs: [] },
  options: ["unitTokens"],
  open(files, { unitTokens, signal }) {
    if (unitTokens !== undefined && !(Number.isInteger(unitTokens) && unitTokens >= 1 && unitTokens <= mostToken))
      throw new InputError(`unit tokens is ${unitTokens}, expected an integer from 1 to ${mostToken}`);
    const kinds = files.map((file) => kindOf(file, unitTokens));
    const [kind] = kinds;
    kinds.forEach(({ unitTokens, content }, i) => {
      if (content !== kind.content || unitTokens !== kind.unitTokens)
        throw new TraceError(
          `${shownPath(files[i])}: ${content} of ${unitTokens} tokens, expected ${kind.content} of ${kind.unitTokens} as in ` +
            shownPath(files[0]),
        );
    });
    return {
      format: "parquet",
      files,
      content: kind.content,
      async *batches(): AsyncGenerator<Trace> {
        const rows = new ParquetRows(kind);
        for (const path of files) {
          const file = opened(path);
          try {
            for (const group of file.groups()) {
              if (signal) await new Promise((resume) => setImmediate(resume));
              signal?.throwIfAborted();
              yield rows.read(file, group);
            }
          } finally {
            file.close();
          }
        }
      },
    };
  },
};

function opened(path: string): ParquetFile {
  const file = openForRandomAccess(path);
  try {
    return new ParquetFile(shownPath(path), file);
  } catch (error) {
    file.close();
    throw error;
  }
}

interface Kind {
  readonly unitTokens: number;
  readonly content: TraceContent;
}

/** Unit and content from the metadata, else from the option. @throws TraceError if they are not stated, or contradict */
function kindOf(path: string, option: number | undefined): Kind {
  const file = opened(path);
  file.close();
  const { unitTokens: stated, path: shown } = file;
  if (option !== undefined && stated !== undefined && option !== stated)
    throw new InputError(`unit tokens is ${option}, expected ${stated}, which the metadata of ${shown} state`);
  const content = file.content ?? contentFrom(file, stated ?? option);
  const unitTokens = stated ?? option ?? 1;
  if (content !== "lengths" && (content === "tokens") !== (unitTokens === 1))
    throw new TraceError(
      `${shown}: ${metadataKeys.content} is "${content}", but the unit is ${unitTokens} (1 for tokens, 2 or more for blocks)`,
    );
  if (content !== "lengths" && !file.has(keysColumn))
    throw new TraceError(`${shown}: has no column ${keysColumn}, expected one with the ids of ${content}`);
  return { unitTokens, content };
}

function contentFrom(file: ParquetFile, unitTokens: number | undefined): TraceContent {
  if (!file.has(keysColumn)) return "lengths";
  if (unitTokens !== undefined) return unitTokens === 1 ? "tokens" : "blocks";
  throw new TraceError(
    `${file.path}: the metadata have no ${metadataKeys.unitTokens}, and no unit is given; expected the tokens per key, 1 for token ids`,
  );
}

/** Turns row groups into batches of one trace, and validates every value. */
class ParquetRows {
  readonly #kind: Kind;
  readonly #builder: TraceBuilder;
  readonly #blocks = new BlockKeys();
  #rowCount = 0;
  #file: ParquetFile | undefined;
  /** Rows of the files before the current one. */
  #rowsBefore = 0;
  #lastArrivalNs = 0;

  constructor(kind: Kind) {
    this.#kind = kind;
    this.#builder = new TraceBuilder(kind.unitTokens, 0, { lengthsOnly: kind.content === "lengths" });
  }

  read(file: ParquetFile, { rowCount, columns }: Group): Trace {
    if (file !== this.#file) {
      this.#file = file;
      this.#rowsBefore = this.#rowCount;
    }
    const fields = numberColumns.map((column) => ({ column, values: this.#numbers(column, columns, rowCount) }));
    const keys = this.#keys(columns.get(keysColumn), rowCount);
    const generated = this.#generated(columns.get(generatedColumn), rowCount);
    for (let r = 0; r < rowCount; r++) {
      const row: TraceRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, keys: keys?.(r) ?? [] };
      for (const { column, values } of fields) {
        const value = values?.[r];
        if (value === undefined || Number.isNaN(value)) continue;
        row[column.field] = value;
      }
      const ids = generated?.(r);
      if (ids) row.generatedKeys = ids;
      this.#check(row);
      this.#builder.add(row);
      this.#rowCount++;
    }
    return this.#builder.take();
  }

  /** The values of a column, NaN = null; undefined if the column is missing or only has nulls. */
  #numbers(
    { name, nullable, least, most }: NumberColumn,
    columns: Group["columns"],
    rowCount: number,
  ): Float64Array | undefined {
    const column = columns.get(name);
    if (!column) return undefined;
    const { values, places, starts } = column;
    if (starts) throw this.#error(0, `${name} is a list, expected an integer`);
    if (nullable && isAllNull(column, rowCount)) return undefined;
    const numbers = new Float64Array(rowCount);
    let hasAny = false;
    for (let r = 0; r < rowCount; r++) {
      const place = places ? places[r] : r;
      const value = place < 0 ? Number.NaN : Number(values[place]);
      numbers[r] = value;
      // Some programs write missing integers as NaN.
      if (nullable && Number.isNaN(value)) continue;
      hasAny = true;
      if (!(Number.isInteger(value) && value >= least && value <= most))
        throw this.#error(
          r,
          `${name} is ${place < 0 ? null : values[place]}, expected an integer from ${least} to ${most}`,
        );
    }
    return hasAny || !nullable ? numbers : undefined;
  }

  /** The keys of each row of the group. */
  #keys(column: Column | undefined, rowCount: number): ((row: number) => Uint32Array) | undefined {
    const { content } = this.#kind;
    const lists = column && !isAllNull(column, rowCount) ? this.#lists(keysColumn, column) : undefined;
    if (content === "lengths" || !lists) {
      if (lists && lists.values.length > 0)
        throw this.#error(0, `${keysColumn} has ids, expected none: the content is lengths`);
      return undefined;
    }
    const { values, starts } = lists;
    if (content === "tokens") return rowsOf(this.#tokens(keysColumn, lists, rowCount), starts);
    const keys = new Uint32Array(values.length);
    for (let r = 0; r < rowCount; r++) {
      const wrong = this.#blocks.number(values, keys, starts[r], starts[r + 1]);
      if (wrong === undefined) continue;
      const found = `${keysColumn}[${wrong - starts[r]}] is ${values[wrong]}`;
      throw this.#error(
        r,
        isId(values[wrong])
          ? `${found} after another id than before: an id identifies a block and all tokens before it`
          : `${found}, expected an integer from 0 to 18446744073709551615`,
      );
    }
    return rowsOf(keys, starts);
  }

  #generated(column: Column | undefined, rowCount: number): ((row: number) => Uint32Array | undefined) | undefined {
    if (!column || isAllNull(column, rowCount)) return undefined;
    const lists = this.#lists(generatedColumn, column);
    const { starts, isNull } = lists;
    const rows = rowsOf(this.#tokens(generatedColumn, lists, rowCount), starts);
    return (r) => (isNull?.[r] === 1 ? undefined : rows(r));
  }

  #lists(name: string, column: Column): Lists {
    const { values, starts, isNull } = column;
    if (!starts) throw this.#error(0, `${name} is a number, expected a list of integers`);
    return { values, starts, isNull };
  }

  #tokens(name: string, { values, starts }: Lists, rowCount: number): Uint32Array {
    const tokens = new Uint32Array(values.length);
    for (let r = 0; r < rowCount; r++) {
      for (let i = starts[r]; i < starts[r + 1]; i++) {
        const token = Number(values[i]);
        if (!(Number.isInteger(token) && token >= 0 && token <= mostToken))
          throw this.#error(r, `${name}[${i - starts[r]}] is ${values[i]}, expected a token id from 0 to ${mostToken}`);
        tokens[i] = token;
      }
    }
    return tokens;
  }

  /** Checks what the columns of a row state about each other. */
  #check(row: TraceRow): void {
    const r = this.#rowCount - this.#rowsBefore;
    const fail = (text: string) => this.#rowError(r, text);
    if (row.arrivalNs < this.#lastArrivalNs)
      throw fail(
        `arrival_ns is ${row.arrivalNs}, expected at least ${this.#lastArrivalNs}, that of the request before`,
      );
    this.#lastArrivalNs = row.arrivalNs;
    const { content, unitTokens } = this.#kind;
    const { inputTokens, outputTokens, maxOutputTokens, generatedKeys, parent, markedTokens } = row;
    const expected = content === "lengths" ? 0 : Math.ceil(inputTokens / unitTokens);
    // A partial last block may have no id.
    const whole = content === "blocks" ? Math.floor(inputTokens / unitTokens) : expected;
    if (row.keys.length !== expected && row.keys.length !== whole)
      throw fail(
        `${keysColumn} has ${row.keys.length} ids, expected ${expected}: input_tokens is ${inputTokens}, the unit ${unitTokens}`,
      );
    if (maxOutputTokens !== undefined && maxOutputTokens < outputTokens)
      throw fail(`max_output_tokens is ${maxOutputTokens}, expected at least output_tokens, ${outputTokens}`);
    if (generatedKeys && content !== "tokens" && generatedKeys.length > 0)
      throw fail(`${generatedColumn} has ids, expected none: the content is ${content}`);
    if (generatedKeys && generatedKeys.length > 0 && generatedKeys.length !== outputTokens)
      throw fail(
        `${generatedColumn} has ${generatedKeys.length} ids, expected ${outputTokens} (output_tokens), or none`,
      );
    if (parent !== undefined && parent >= this.#rowCount)
      throw fail(`parent is ${parent}, expected the number of an earlier row, from 0, or -1`);
    if (markedTokens !== undefined && markedTokens > inputTokens)
      throw fail(`marked_tokens is ${markedTokens}, expected at most input_tokens, ${inputTokens}`);
  }

  /** An error in row `r` of the current row group. */
  #error(r: number, text: string): TraceError {
    return this.#rowError(this.#rowCount - this.#rowsBefore + r, text);
  }

  #rowError(row: number, text: string): TraceError {
    return new TraceError(`${this.#file?.path}: row ${row}: ${text}`);
  }
}

interface Lists {
  readonly values: Numbers;
  readonly starts: Float64Array;
  readonly isNull?: Uint8Array | undefined;
}

/** Some programs write a column of nulls as one of numbers. */
const isAllNull = ({ values, places, starts, isNull }: Column, rowCount: number) =>
  values.length === 0 && (starts ? isNull?.reduce((sum, each) => sum + each, 0) === rowCount : places !== undefined);

const rowsOf = (values: Uint32Array, starts: Float64Array) => (row: number) =>
  values.subarray(starts[row], starts[row + 1]);

const isId = (value: number | bigint) =>
  typeof value === "bigint" ? value >= 0n : Number.isInteger(value) && value >= 0 && value < 2 ** 53;
