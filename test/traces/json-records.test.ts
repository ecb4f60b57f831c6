import fc from "fast-check";
import { expect, test } from "vitest";
import type { ByteSource } from "../../traces/bytes.ts";
import { type JsonRecord, jsonRecords } from "../../traces/json-records.ts";
import { failureOf } from "./files.ts";
import "../support/seed.ts";

/** A source that delivers the text in pieces of these sizes, in turn. */
function sourceOf(text: string | Uint8Array, sizes: readonly number[] = [1 << 20]): ByteSource {
  const bytes = Buffer.from(text);
  let at = 0;
  let piece = 0;
  return {
    read(into) {
      const count = Math.min(sizes[piece++ % sizes.length], into.length, bytes.length - at);
      into.set(bytes.subarray(at, at + count));
      at += count;
      return count;
    },
    close() {},
  };
}

async function recordsOf(text: string | Uint8Array, sizes?: readonly number[]): Promise<JsonRecord[]> {
  const records: JsonRecord[] = [];
  for await (const record of jsonRecords("t.json", sourceOf(text, sizes))) records.push(record);
  return records;
}

const valuesOf = async (text: string | Uint8Array, sizes?: readonly number[]) =>
  (await recordsOf(text, sizes)).map((record) => record.value("x"));

const fields = fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue());

test("the objects of an array, of lines and of a pretty-printed array are the same, wherever the bytes are divided", async () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });
  const property = fc.asyncProperty(fc.array(fields, { minLength: 1, maxLength: 6 }), sizes, async (values, pieces) => {
    const objects = values.map((x) => ({ x }));
    const texts = [
      JSON.stringify(objects),
      JSON.stringify(objects, undefined, 2),
      objects.map((one) => `${JSON.stringify(one)}\r\n`).join(""),
      `\uFEFF${objects.map((one) => JSON.stringify(one, undefined, 1)).join("\n\n")}`,
    ];
    for (const text of texts) {
      const read = await valuesOf(text, pieces);
      // The objects that are read have no prototype.
      expect(JSON.parse(JSON.stringify(read))).toEqual(JSON.parse(JSON.stringify(values)));
    }
  });
  await fc.assert(property, { numRuns: 200 });
});

test("any text that JSON.parse refuses as a line is refused, and any other object has the same value", async () => {
  const property = fc.asyncProperty(
    fields,
    fc.nat(),
    fc.constantFrom("", '"', "\\", "{", "}", "[", "]", ",", ":", "0", "e", "\u0001", "x", " "),
    async (value, at, put) => {
      const whole = JSON.stringify({ x: value });
      const place = at % whole.length;
      const text = Buffer.from(whole.slice(0, place) + put + whole.slice(place + 1)).toString();
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        expect(await failureOf(() => recordsOf(text))).toMatch(/^t\.json:1: /);
        return;
      }
      const failure = await failureOf(async () => {
        const [record] = await recordsOf(text);
        expect(JSON.parse(JSON.stringify(record.value("x") ?? null))).toEqual((expected as { x?: unknown }).x ?? null);
      });
      expect(failure).toMatch(/^nothing|occurs twice/);
    },
  );
  await fc.assert(property, { numRuns: 2000 });
});

test.each<[string, string]>([
  ['{"x": 1}\n{"x": 1, "y": 2, "x": 3}', 't.json:2: the name "x" occurs twice in one object at column 18'],
  ['{"x": {"a": 1, "\\u0061": 2}}', 't.json:1: the name "a" occurs twice in one object at column 16'],
  ['{"x": 1}\n{"x": tru}', 't.json:2: invalid JSON: found "tru}" at column 7'],
  ['[{"x": 1},\n {"x": 01}]', 't.json:2: element 2: invalid JSON: found "01}" at column 7'],
  ['{"x": 1}\n{"x": [1, 2', "t.json:2: the file ends within the value at column 12"],
  ['{"x": "ab\n{"x": "c"}', 't.json:1: invalid JSON: found "\\n" at column 10'],
  ['{"x": [1,\n{"x": 2}\n{"x": 3}', "t.json:3: invalid JSON"],
  ['[{"x": 1}', 't.json:1: the file ends before its array, expected "]"'],
  ['[{"x": 1}]\n[]', 't.json:2: found "[]", expected nothing after the array'],
  ['[{"x": 1}, 5]', 't.json:1: found "5]", expected an object'],
  ['[{"x": 1} {"x": 2}]', 't.json:1: found "{\\"x\\": 2}]", expected "," or "]"'],
  ['[{"x": 1},]', 't.json:1: found "]", expected an object'],
  ['{"x": 1}, {"x": 2}', 't.json:1: found ", {\\"x\\": 2}", expected an object'],
  ["hello", 't.json:1: found "hello", expected a JSON object or an array of objects'],
  ["", "t.json: the file is empty, expected a trace"],
  [" \n\n ", "t.json: no requests, only blank lines"],
  ["[ ]", "t.json: no requests, only an empty array"],
  [`{"x": ${"[".repeat(300)}${"]".repeat(300)}}`, "t.json:1: the value is nested deeper than 200 levels at column 206"],
  ['{"x": "\\q"}', "t.json:1: a string has an invalid escape at column 7"],
])("the text %j is refused", async (text, message) => {
  expect(await failureOf(() => recordsOf(text))).toContain(message);
});

test("text that is not UTF-8 is refused", async () => {
  const bytes = Buffer.concat([Buffer.from('{"x": "'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
  expect(await failureOf(() => recordsOf(bytes))).toBe("t.json:1: the text is not UTF-8");
});

test("fields are read by type, and a wrong one is named with its place", async () => {
  const [record] = await recordsOf('[{"x": 1.5, "list": [{"y": "a"}, {"y": null}], "of": {"z": true}, "n": null}]');
  expect(record.number("x", "a number")).toBe(1.5);
  expect(record.records("list")[0].text("y")).toBe("a");
  expect(record.has("n")).toBe(false);
  expect(() => record.text("x")).toThrow("t.json:1: element 1: x is 1.5, expected a string");
  expect(() => record.text("none")).toThrow("none is missing, expected a string");
  expect(() => record.integer("x", 0, 9)).toThrow("x is 1.5, expected an integer from 0 to 9");
  expect(() => record.records("list")[1].text("y")).toThrow("list[1].y is null, expected a string");
  expect(() => record.record("of").text("z")).toThrow("of.z is true, expected a string");
  expect(() => record.records("of")).toThrow('of is {"z":true}, expected an array of objects');
});

test("a name such as __proto__ is an ordinary field", async () => {
  const [record] = await recordsOf('{"__proto__": {"x": 2}, "constructor": "c"}');
  expect(record.has("x")).toBe(false);
  expect(record.text("constructor")).toBe("c");
  expect(record.has("toString")).toBe(false);
});
