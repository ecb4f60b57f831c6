import { gzipSync } from "node:zlib";
import type { Random } from "../../core/random.ts";

/** A kind of change to a file. */
export interface Mutation {
  readonly name: string;
  /** The changed bytes; undefined if the file has no place for the change. */
  apply(bytes: Buffer, random: Random): Buffer | undefined;
  /** The outcome of reading a valid file of text after this change alone; undefined where it depends on the place. */
  readonly outcome?: "equal" | "refused";
}

const numbers = [
  ...["-1", "0", "-0", "0.1", "1e15", "1e400", "1e-320", "2147483648", "9007199254740993", "18446744073709551616"],
  ...["99999999999999999999999", "9".repeat(400), "NaN"],
];
const values = ['"x"', "null", "true", "[]", "{}", "[[[1]]]", "1"];
const structure = Buffer.from('{}[]",:\\0-e\n\r\t \0\xff', "latin1");
const tokens = [...'{}[]",:;\\\n \t', "null", "true", "\\u0000", "é", "\u2028"];

const pick = <T>(all: readonly T[], random: Random) => all[random.below(all.length)];
// In Latin-1 each byte is a character, so that bytes that are not UTF-8 are kept.
const textOf = (bytes: Buffer) => bytes.toString("latin1");
const bytesOf = (text: string) => Buffer.from(text, "latin1");
const linesOf = (bytes: Buffer) => textOf(bytes).split(/(?<=\n)/);

function spliced(bytes: Buffer, from: number, to: number, by: Uint8Array | string): Buffer {
  return Buffer.concat([bytes.subarray(0, from), Buffer.from(by as string), bytes.subarray(to)]);
}

/** Replaces one occurrence of a pattern; undefined if there is none. */
function replaced(bytes: Buffer, pattern: RegExp, random: Random, by: (found: string) => string): Buffer | undefined {
  const found = [...textOf(bytes).matchAll(pattern)];
  if (found.length === 0) return undefined;
  const { index, 0: text } = pick(found, random);
  return spliced(bytes, index, index + text.length, bytesOf(by(text)));
}

/** Changes the list of lines in place. */
function withLines(bytes: Buffer, change: (lines: string[]) => void): Buffer {
  const lines = linesOf(bytes);
  change(lines);
  return bytesOf(lines.join(""));
}

const ofBytes: readonly Mutation[] = [
  {
    name: "flipped bits",
    apply(bytes, random) {
      const flipped = Buffer.from(bytes);
      for (let left = 1 + random.below(4); left > 0; left--)
        flipped[random.below(flipped.length)] ^= 1 << random.below(8);
      return flipped;
    },
  },
  {
    name: "other bytes",
    apply(bytes, random) {
      const changed = Buffer.from(bytes);
      for (let left = 1 + random.below(4); left > 0; left--) changed[random.below(changed.length)] = random.below(256);
      return changed;
    },
  },
  {
    name: "bytes of the syntax",
    apply(bytes, random) {
      const changed = Buffer.from(bytes);
      for (let left = 1 + random.below(3); left > 0; left--)
        changed[random.below(changed.length)] = structure[random.below(structure.length)];
      return changed;
    },
  },
  {
    name: "other bytes of another length",
    apply(bytes, random) {
      const by = Buffer.from(Array.from({ length: random.below(12) }, () => random.below(256)));
      const from = random.below(bytes.length);
      return spliced(bytes, from, Math.min(bytes.length, from + random.below(12)), by);
    },
  },
  {
    name: "missing bytes",
    apply(bytes, random) {
      const from = random.below(bytes.length);
      return spliced(bytes, from, from + 1 + random.below(40), "");
    },
  },
  {
    name: "repeated bytes",
    apply(bytes, random) {
      const from = random.below(bytes.length);
      return spliced(bytes, from, from, bytes.subarray(from, from + random.below(60)));
    },
  },
  { name: "cut end", apply: (bytes, random) => bytes.subarray(0, random.below(bytes.length)) },
  { name: "cut start", apply: (bytes, random) => bytes.subarray(random.below(bytes.length)) },
];

const ofLines: readonly Mutation[] = [
  {
    name: "cut line",
    apply: (bytes, random) =>
      withLines(bytes, (lines) => {
        const at = random.below(lines.length);
        lines[at] = `${lines[at].slice(0, random.below(lines[at].length + 1))}\n`;
      }),
  },
  {
    name: "repeated line",
    apply: (bytes, random) =>
      withLines(bytes, (lines) => lines.splice(random.below(lines.length), 0, pick(lines, random))),
  },
  {
    name: "omitted line",
    apply: (bytes, random) => withLines(bytes, (lines) => lines.splice(random.below(lines.length), 1)),
  },
  {
    name: "swapped lines",
    apply: (bytes, random) =>
      withLines(bytes, (lines) => {
        const [a, b] = [random.below(lines.length), random.below(lines.length)];
        [lines[a], lines[b]] = [lines[b], lines[a]];
      }),
  },
  {
    name: "line ends CR LF",
    apply: (bytes) => bytesOf(textOf(bytes).replaceAll("\n", "\r\n")),
    outcome: "equal",
  },
  { name: "line ends CR", apply: (bytes) => bytesOf(textOf(bytes).replaceAll("\n", "\r")) },
  { name: "blank lines", apply: (bytes) => bytesOf(`\n \n${linesOf(bytes).join("\n \r\n")}\n\n`), outcome: "equal" },
];

const ofFields: readonly Mutation[] = [
  {
    name: "other number",
    apply: (bytes, random) => replaced(bytes, /-?\d[\d.eE+-]*/g, random, () => pick(numbers, random)),
  },
  {
    name: "larger number",
    apply: (bytes, random) => replaced(bytes, /\d+/g, random, (found) => `${found}${random.below(1e6)}`),
  },
  {
    name: "other type",
    apply: (bytes, random) => replaced(bytes, /(?<=[:[,] ?)(?:-?[\d.]+|"[^"]*")/g, random, () => pick(values, random)),
  },
  {
    name: "deep nesting",
    apply: (bytes, random) => replaced(bytes, /(?<=: ?)-?[\d.]+/g, random, () => "[".repeat(1 + random.below(3000))),
  },
  {
    name: "token between others",
    apply(bytes, random) {
      const at = random.below(bytes.length + 1);
      return spliced(bytes, at, at, pick(tokens, random));
    },
  },
  {
    name: "repeated name",
    apply: (bytes, random) => replaced(bytes, /(?<!\\)"(?:[^"\\\n]|\\.)*"\s*:/g, random, (name) => `${name}0,${name}`),
    outcome: "refused",
  },
  {
    name: "repeated field",
    apply: (bytes, random) =>
      replaced(
        bytes,
        /(?<!\\)"\w+": ?(?:-?[\d.]+|"(?:[^"\\\n]|\\.)*"|\[[^[\]{}"]*\])/g,
        random,
        (field) => `${field},${field}`,
      ),
    outcome: "refused",
  },
  {
    name: "omitted field",
    apply: (bytes, random) => replaced(bytes, /"[^"]*": ?(?:-?[\d.]+|"[^"]*")(?:, ?)?/g, random, () => ""),
  },
];

const ofEncoding: readonly Mutation[] = [
  { name: "byte order mark", apply: (bytes) => Buffer.concat([Buffer.from("\uFEFF"), bytes]), outcome: "equal" },
  { name: "UTF-16", apply: (bytes) => Buffer.from(`\uFEFF${bytes}`, "utf16le"), outcome: "refused" },
  {
    name: "UTF-16, big-endian",
    apply: (bytes) => Buffer.from(`\uFEFF${bytes}`, "utf16le").swap16(),
    outcome: "refused",
  },
  {
    name: "UTF-16 without a byte order mark",
    apply: (bytes) => Buffer.from(`${bytes}`, "utf16le"),
    outcome: "refused",
  },
  {
    name: "Latin-1",
    apply: (bytes, random) => spliced(bytes, random.below(bytes.length), bytes.length, bytesOf("\xe9\xff")),
  },
  {
    name: "zero byte",
    apply(bytes, random) {
      const at = random.below(bytes.length);
      return spliced(bytes, at, at + 1, Uint8Array.of(0));
    },
    outcome: "refused",
  },
  { name: "empty", apply: () => Buffer.alloc(0), outcome: "refused" },
];

const packed = (bytes: Buffer) => gzipSync(bytes, { level: 1 });

const ofCompression: readonly Mutation[] = [
  { name: "gzip", apply: packed, outcome: "equal" },
  {
    name: "cut gzip",
    apply: (bytes, random) => packed(bytes).subarray(0, random.below(packed(bytes).length)),
    outcome: "refused",
  },
  {
    name: "changed gzip",
    apply(bytes, random) {
      const changed = packed(bytes);
      changed[random.below(changed.length)] ^= 1 + random.below(255);
      return changed;
    },
  },
  { name: "gzip twice", apply: (bytes) => packed(packed(bytes)), outcome: "refused" },
];

const ofText = [...ofBytes, ...ofLines, ...ofFields, ...ofEncoding];

/** All kinds of changes to a file of text, or to a binary one. */
export const mutationsOf = (isText: boolean): readonly Mutation[] => (isText ? [...ofText, ...ofCompression] : ofBytes);

/** A changed file. */
export interface MutatedFile {
  readonly bytes: Buffer;
  /** Names of the changes. */
  readonly names: readonly string[];
  /** The outcome of reading it, if it has one change only. */
  readonly outcome: Mutation["outcome"];
}

/** The file after change number `i`, and in half of the cases one or two others and, of text, perhaps compression. */
export function mutated(original: Buffer, i: number, random: Random, isText: boolean): MutatedFile {
  const kinds = mutationsOf(isText);
  const first = kinds[i % kinds.length];
  const all = [first];
  if (random.below(2) === 0) {
    for (let left = 1 + random.below(2); left > 0; left--) all.push(pick(isText ? ofText : ofBytes, random));
    if (isText && random.below(4) === 0) all.push(pick(ofCompression, random));
  }
  let bytes = original;
  for (const { apply } of all) if (bytes.length > 0) bytes = apply(bytes, random) ?? bytes;
  const outcome = bytes.equals(original) ? "equal" : first.outcome;
  return { bytes, names: all.map(({ name }) => name), outcome: all.length === 1 ? outcome : undefined };
}
