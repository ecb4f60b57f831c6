import { TraceError } from "../core/errors.ts";
import { openBytes, shownPath } from "./bytes.ts";
import { JsonLineScanner } from "./json-lines.ts";
import { LineBlock, lineBlocks, unpackedChunks } from "./lines.ts";

/**
 * How a file begins: with a JSON object on one line, a JSON object over several lines, a JSON array, a line with commas, the
 * magic bytes of Parquet, or any other line.
 */
export type SampleKind = "json-lines" | "json-object" | "json-array" | "csv" | "parquet" | "text";

/** The beginning of a trace file, from which its format is recognised. */
export interface Sample {
  readonly path: string;
  readonly kind: SampleKind;
  /**
   * Names of the fields of the first JSON object, also of objects within it, as in `requests[].prompt`; or the columns of a
   * CSV header. Empty for Parquet, whose columns are at the end of the file.
   */
  readonly fields: readonly string[];
  /** The first line that is not blank, shortened; for messages. */
  readonly line: string;
  readonly lineNumber: number;
}

/** A first object that is longer is recognised by the fields in its beginning. */
const mostBytes = 1 << 23;
const shownCharacters = 60;
const deepestFields = 3;
const mostFields = 1000;

/** Reads the beginning of a file, plain or gzip. Standard input is read again from its start afterwards. */
export async function sampleOf(path: string, signal?: AbortSignal): Promise<Sample> {
  const name = shownPath(path);
  const { bytes, complete } = await beginningOf(path, signal);
  if (bytes.subarray(0, 4).toString("latin1") === "PAR1")
    return { path: name, kind: "parquet", fields: [], line: "PAR1", lineNumber: 1 };
  // The bytes are those of a file of lines, so that its messages apply.
  if (bytes.length === 0 || bytes.includes(0) || bytes.toString("latin1").trim() === "") await firstBlock(path, signal);
  const text = bytes.toString().replace(/^\uFEFF/, " ");
  const from = text.search(/\S/);
  if (from < 0) throw new TraceError(`${name}: no requests, only blank lines`);
  const newline = text.indexOf("\n", from);
  const first = text.slice(from, newline < 0 ? undefined : newline).trimEnd();
  const sample = {
    path: name,
    line: first.length > shownCharacters ? `${first.slice(0, shownCharacters)}…` : first,
    lineNumber: text.slice(0, from).split("\n").length,
  };
  if (first.startsWith("{") || first.startsWith("[")) {
    const { fields, end } = objectFields(text, from);
    if (first.startsWith("[")) return { ...sample, kind: "json-array", fields };
    const isOverLines = newline >= 0 && (end === undefined ? !complete : end > newline);
    if (isOverLines) return { ...sample, kind: "json-object", fields };
    if (newline >= 0 || complete) checkLine(name, bytes);
    return { ...sample, kind: "json-lines", fields };
  }
  if (!first.includes(",")) return { ...sample, kind: "text", fields: [] };
  return { ...sample, kind: "csv", fields: first.split(",").map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")) };
}

/** The file's first bytes, until they contain a line or an object that is complete; `complete` if the file has no more. */
async function beginningOf(path: string, signal?: AbortSignal): Promise<{ bytes: Buffer; complete: boolean }> {
  const source = await openBytes(path, { peek: true, signal });
  try {
    let bytes: Buffer = Buffer.alloc(0);
    for await (const chunk of unpackedChunks(shownPath(path), source, { line: 0 })) {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.length >= mostBytes || isEnough(bytes)) return { bytes, complete: false };
    }
    return { bytes, complete: true };
  } finally {
    await source.close();
  }
}

/** Whether the bytes contain a whole line that is not blank and, if it begins a JSON value, its first object. */
function isEnough(bytes: Buffer): boolean {
  const text = bytes.toString("latin1");
  const from = text.replace(/^ï»¿/, "   ").search(/\S/);
  if (from < 0 || text.indexOf("\n", from) < 0) return from >= 0 && text.startsWith("PAR1");
  if (text[from] !== "{" && text[from] !== "[") return true;
  const { end, isValid } = objectFields(text, from);
  return end !== undefined || !isValid;
}

/** Reads the first lines, which reports why they are not text. */
async function firstBlock(path: string, signal?: AbortSignal): Promise<void> {
  for await (const block of lineBlocks(path, signal, true)) if (block.next() && block.text().trim() !== "") return;
}

/** @throws TraceError if the first line is not valid JSON */
function checkLine(name: string, bytes: Buffer): void {
  const block = new LineBlock(name);
  const isWhole = bytes.lastIndexOf(10) === bytes.length - 1;
  const padded = isWhole ? bytes : Buffer.concat([bytes, Buffer.from("\n")]);
  if (padded.subarray(0, 3).toString("latin1") === "ï»¿") padded.fill(0x20, 0, 3);
  block.refill(padded, bytes.length, isWhole);
  while (block.next()) {
    const scan = new JsonLineScanner({});
    scan.begin(block);
    if (scan.isBlank) continue;
    const invalid = scan.invalid();
    if (invalid) throw invalid;
    return;
  }
}

interface FirstObject {
  readonly fields: readonly string[];
  /** End of the object; undefined if the text ends first, or is not valid. */
  readonly end: number | undefined;
  /** Whether the text may be the beginning of valid JSON. */
  readonly isValid: boolean;
}

const token = /\s*(?:("(?:[^"\\\n]|\\.)*")|([{}[\],:])|([-+.\w]+))/y;

interface Container {
  readonly isObject: boolean;
  /** Path of the container, as in `requests[]`; empty for the first object. */
  readonly path: string;
  /** Path of the current field of an object. */
  field: string;
}

/** Names of the fields of the first object in a JSON text that may be cut off anywhere. */
function objectFields(text: string, from: number): FirstObject {
  const fields = new Set<string>();
  const open: Container[] = [];
  let objects = 0;
  let string: string | undefined;
  const result = (end: number | undefined, isValid: boolean) => ({ fields: [...fields], end, isValid });
  token.lastIndex = from;
  for (let end = from; ; ) {
    const found = token.exec(text);
    // The text ends in white space, in a string or at the end of a token; or it is not JSON.
    if (!found) return result(undefined, /^\s*(?:"(?:[^"\\\n]|\\.)*\\?)?$/.test(text.slice(end)));
    end = token.lastIndex;
    const within = open.at(-1);
    const [, quoted, mark] = found;
    if (mark === ":") {
      if (!within?.isObject || string === undefined) return result(undefined, false);
      const name = unquoted(string);
      within.field = within.path === "" ? name : `${within.path}.${name}`;
      if (objects <= deepestFields && fields.size < mostFields) fields.add(within.field);
    } else if (mark === "{" || mark === "[") {
      const isObject = mark === "{";
      const path = within === undefined ? "" : within.isObject ? within.field : within.path;
      open.push({ isObject, path: isObject || open.length === 0 ? path : `${path}[]`, field: "" });
      if (isObject) objects++;
    } else if (mark === "}" || mark === "]") {
      const closed = open.pop();
      if (closed?.isObject !== (mark === "}")) return result(undefined, false);
      if (closed.isObject) objects--;
      if (open.length === 0 || (closed.isObject && objects === 0)) return result(end, true);
    }
    string = quoted;
  }
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text);
  } catch {
    return text.slice(1, -1);
  }
}
