import { gzipSync } from "node:zlib";
import type { Random } from "../../core/random.ts";

type Mutation = (bytes: Buffer, random: Random) => Buffer;

const numbers = ["-1", "0", "1e400", "-0", "2147483648", "18446744073709551616", "1e15", "0.5", "NaN", "9".repeat(400)];
const tokens = [
  "{",
  "}",
  "[",
  "]",
  '"',
  ",",
  ":",
  "null",
  "true",
  "\\",
  "\\u0000",
  "\n",
  " ",
  "\t",
  ";",
  "é",
  "\u2028",
];

const spliced = (bytes: Buffer, from: number, to: number, by: Uint8Array) =>
  Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(to)]);

const places = (bytes: Buffer, pattern: RegExp) =>
  [...bytes.toString("latin1").matchAll(pattern)].map((found) => [found.index, found.index + found[0].length] as const);

/** Replaces one occurrence of a pattern; the bytes themselves if there is none. */
function replaced(bytes: Buffer, pattern: RegExp, random: Random, by: (found: Buffer) => string | Uint8Array): Buffer {
  const found = places(bytes, pattern);
  if (found.length === 0) return bytes;
  const [from, to] = found[random.below(found.length)];
  return spliced(bytes, from, to, Buffer.from(by(bytes.subarray(from, to))));
}

const lines = (bytes: Buffer) => bytes.toString("latin1").split("\n");
const joined = (all: readonly string[]) => Buffer.from(all.join("\n"), "latin1");
const pick = <T>(all: readonly T[], random: Random) => all[random.below(all.length)];

const textMutations: Readonly<Record<string, Mutation>> = {
  flippedBits(bytes, random) {
    const flipped = Buffer.from(bytes);
    for (let left = 1 + random.below(3); left > 0; left--)
      flipped[random.below(flipped.length)] ^= 1 << random.below(8);
    return flipped;
  },
  randomBytes(bytes, random) {
    const by = Buffer.from(Array.from({ length: random.below(12) }, () => random.below(256)));
    const from = random.below(bytes.length);
    return spliced(bytes, from, Math.min(bytes.length, from + random.below(12)), by);
  },
  cutEnd: (bytes, random) => bytes.subarray(0, random.below(bytes.length)),
  cutStart: (bytes, random) => bytes.subarray(random.below(bytes.length)),
  cutLine(bytes, random) {
    const all = lines(bytes);
    const at = random.below(all.length);
    all[at] = all[at].slice(0, random.below(all[at].length + 1));
    return joined(all);
  },
  repeatedLine(bytes, random) {
    const all = lines(bytes);
    all.splice(random.below(all.length), 0, pick(all, random));
    return joined(all);
  },
  omittedLine(bytes, random) {
    const all = lines(bytes);
    all.splice(random.below(all.length), 1);
    return joined(all);
  },
  otherNumber: (bytes, random) => replaced(bytes, /-?\d[\d.eE+-]*/g, random, () => pick(numbers, random)),
  largerNumber: (bytes, random) => replaced(bytes, /\d+/g, random, (found) => `${found}${random.below(1e6)}`),
  insertedToken(bytes, random) {
    const at = random.below(bytes.length + 1);
    return spliced(bytes, at, at, Buffer.from(pick(tokens, random)));
  },
  repeatedField: (bytes, random) =>
    replaced(bytes, /"[^"]*": ?(?:-?[\d.]+|"[^"]*"|\[[^\]]*\])/g, random, (found) => `${found},${found}`),
  omittedField: (bytes, random) => replaced(bytes, /"[^"]*": ?(?:-?[\d.]+|"[^"]*")(?:, ?)?/g, random, () => ""),
  otherType: (bytes, random) =>
    replaced(bytes, /(?<=: ?)(?:-?[\d.]+|"[^"]*")/g, random, () =>
      pick(['"x"', "null", "[]", "{}", "[[[1]]]", "1"], random),
    ),
  deepNesting: (bytes, random) =>
    replaced(bytes, /(?<=: ?)-?[\d.]+/g, random, () => "[".repeat(1 + random.below(3000))),
  windowsLines: (bytes) => joined(lines(bytes).map((line) => `${line}\r`)),
  oldMacLines: (bytes) => Buffer.from(bytes.toString("latin1").replaceAll("\n", "\r"), "latin1"),
  byteOrderMark: (bytes) => Buffer.concat([Buffer.from("\uFEFF"), bytes]),
  utf16: (bytes) => Buffer.from(`\uFEFF${bytes.toString()}`, "utf16le"),
  latin1: (bytes, random) =>
    spliced(bytes, random.below(bytes.length), bytes.length, Buffer.from("\xe9\xff", "latin1")),
  zeroByte(bytes, random) {
    const at = random.below(bytes.length);
    return spliced(bytes, at, at + 1, Uint8Array.of(0));
  },
  blankLines: (bytes, random) => replaced(bytes, /\n/g, random, () => "\n \n\r\n\n"),
  empty: () => Buffer.alloc(0),
};

const packedMutations: Readonly<Record<string, Mutation>> = {
  plain: (bytes) => bytes,
  packed: (bytes) => gzipSync(bytes, { level: 1 }),
  truncatedGzip(bytes, random) {
    const packed = gzipSync(bytes, { level: 1 });
    return packed.subarray(0, random.below(packed.length));
  },
  damagedGzip(bytes, random) {
    const packed = gzipSync(bytes, { level: 1 });
    packed[random.below(packed.length)] ^= 1 << random.below(8);
    return packed;
  },
  packedTwice: (bytes) => gzipSync(gzipSync(bytes, { level: 1 }), { level: 1 }),
};

/** The bytes after one to three mutations, and their names. Binary files are only changed as bytes. */
export function mutated(original: Buffer, random: Random, isText: boolean): { bytes: Buffer; names: string[] } {
  const names: string[] = [];
  let bytes = original;
  const kinds = isText ? Object.keys(textMutations) : ["flippedBits", "randomBytes", "cutEnd", "cutStart"];
  for (let left = 1 + random.below(3); left > 0 && bytes.length > 0; left--) {
    const name = pick(kinds, random);
    names.push(name);
    bytes = textMutations[name](bytes, random);
  }
  if (random.below(4) > 0) return { bytes, names };
  const name = pick(Object.keys(packedMutations), random);
  return { bytes: packedMutations[name](bytes, random), names: [...names, name] };
}
