import { gzipSync } from "node:zlib";
import type { Random } from "../../core/random.ts";

/** A changed file, and the outcome that it must have; undefined where a valid file may result. */
export interface Mutation {
  readonly bytes: Buffer;
  readonly outcome: "equal" | "refused" | undefined;
}

type Mutate = (text: Buffer, random: Random) => Mutation;

const numbers = [
  "1e999",
  "-1",
  "99999999999999999999999",
  "1e-320",
  "0.1",
  "null",
  "[]",
  "true",
  '"x"',
  "9007199254740993",
];

const changed = (bytes: Buffer, outcome?: Mutation["outcome"]): Mutation => ({ bytes, outcome });
const joined = (...parts: (Buffer | string)[]) => Buffer.concat(parts.map((part) => Buffer.from(part)));
const linesOf = (text: Buffer) => text.toString().split(/(?<=\n)/);

/** The kinds of changes: of bytes, of lines, of numbers, of encodings and of compressed data. */
export const mutations: Readonly<Record<string, Mutate>> = {
  flippedBits(text, random) {
    const bytes = Buffer.from(text);
    for (let i = random.below(4); i >= 0; i--) bytes[random.below(bytes.length)] ^= 1 << random.below(8);
    return changed(bytes);
  },
  otherBytes(text, random) {
    const bytes = Buffer.from(text);
    const structure = Buffer.from('{}[]",:\\0-e\n\r\t \0\xff', "latin1");
    for (let i = random.below(3); i >= 0; i--)
      bytes[random.below(bytes.length)] = structure[random.below(structure.length)];
    return changed(bytes);
  },
  cut(text, random) {
    return changed(text.subarray(0, random.below(text.length)));
  },
  missingBytes(text, random) {
    const from = random.below(text.length);
    return changed(joined(text.subarray(0, from), text.subarray(from + 1 + random.below(40))));
  },
  repeatedBytes(text, random) {
    const from = random.below(text.length);
    const to = from + random.below(60);
    return changed(joined(text.subarray(0, to), text.subarray(from)));
  },
  cutLine(text, random) {
    const lines = linesOf(text);
    const at = random.below(lines.length);
    lines[at] = `${lines[at].slice(0, random.below(lines[at].length))}\n`;
    return changed(Buffer.from(lines.join("")));
  },
  swappedLines(text, random) {
    const lines = linesOf(text);
    const [a, b] = [random.below(lines.length), random.below(lines.length)];
    [lines[a], lines[b]] = [lines[b], lines[a]];
    return changed(Buffer.from(lines.join("")));
  },
  otherNumber(text, random) {
    const places = [...text.toString().matchAll(/(?<=[:[,]\s*)-?\d[\d.e+]*/g)];
    if (places.length === 0) return changed(text, "equal");
    const { index, 0: found } = places[random.below(places.length)];
    const whole = text.toString();
    const put = numbers[random.below(numbers.length)];
    return changed(Buffer.from(whole.slice(0, index) + put + whole.slice(index + found.length)));
  },
  repeatedName(text, random) {
    const whole = text.toString();
    const places = [...whole.matchAll(/(?<!\\)"(?:[^"\\\n]|\\.)*"\s*:/g)];
    const { index, 0: name } = places[random.below(places.length)];
    return changed(Buffer.from(`${whole.slice(0, index)}${name}0,${whole.slice(index)}`), "refused");
  },
  lineEnds: (text) => changed(Buffer.from(text.toString().replaceAll("\n", "\r\n")), "equal"),
  byteOrderMark: (text) => changed(joined("\uFEFF", text), "equal"),
  blankLines: (text) => changed(Buffer.from(`\n \n${linesOf(text).join("\n")}\n\n`), "equal"),
  utf16: (text) => changed(Buffer.from(`\uFEFF${text}`, "utf16le"), "refused"),
  gzip: (text) => changed(gzipSync(text), "equal"),
  cutGzip(text, random) {
    const packed = gzipSync(text);
    return changed(packed.subarray(0, random.below(packed.length)), "refused");
  },
  changedGzip(text, random) {
    const packed = gzipSync(text);
    packed[10 + random.below(packed.length - 10)] ^= 1 + random.below(255);
    return changed(packed);
  },
};
