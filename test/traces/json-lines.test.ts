import fc from "fast-check";
import { expect, test } from "vitest";
import { JsonLineScanner, WideIntegers } from "../../traces/json-lines.ts";
import { LineBlock, lineBlocks } from "../../traces/lines.ts";
import { failureOf, fileOf } from "./files.ts";

const fields = { a: { expected: "a number", required: true }, b: { expected: "an array" } } as const;

/** The field `a` as a number and `b` as integers in decimal, of every line of a file. */
async function scanned(path: string): Promise<{ a?: number; b?: string[] }[]> {
  const scan = new JsonLineScanner<"a" | "b">(fields);
  const wide = new WideIntegers();
  const found: { a?: number; b?: string[] }[] = [];
  for await (const block of lineBlocks(path)) {
    while (block.next()) {
      const line: { a?: number; b?: string[] } = {};
      scan.begin(block);
      for (let name = scan.next(); name; name = scan.next()) {
        if (name === "a") line.a = scan.number();
        else {
          scan.wideIntegers(wide);
          line.b = Array.from({ length: wide.length }, (_, i) => wide.text(i));
        }
      }
      found.push(line);
    }
  }
  return found;
}

test("fields are read in any order, among other fields, and in every JSON notation", async () => {
  const lines = [
    '{"a":1,"b":[2,3]}',
    '\t{ "b" : [ ] , "x" : {"a": [{}, "\\"}", null]}, "a" : -1.5e2 }\r',
    '{"\\u0061": 0.25, "b": [5.0, 1e3,\t7]}',
  ];
  expect(await scanned(fileOf(lines))).toEqual([
    { a: 1, b: ["2", "3"] },
    { a: -150, b: [] },
    { a: 0.25, b: ["5", "1000", "7"] },
  ]);
});

test("lines whose fields have another order, other fields between them or other white space are read", async () => {
  const lines = [
    '{"a": 1, "b": [2]}',
    '{"a":  1 , "b":\t[2]}',
    '{"b": [2], "a": 1}',
    ' {"x": 0, "a": 1, "y": 0, "b": [2], "z": 0} ',
    '{"a": 1, "b": [2]}',
  ];
  expect(await scanned(fileOf(lines))).toEqual(lines.map(() => ({ a: 1, b: ["2"] })));
  expect(await failureOf(() => scanned(fileOf(['{"a": 1}', '{"a": 1{"a": 1}'], "t")))).toBe(
    't:2: invalid JSON: found "{\\"a\\": 1}" at column 8',
  );
});

test("a field that is there twice is refused, unless it is not read", async () => {
  expect(await failureOf(() => scanned(fileOf(['{"a": 1, "x": 0, "x": 0, "b": [], "\\u0061": 2}'], "t")))).toBe(
    't:1: the name "a" occurs twice in one object',
  );
});

test("integers of 64 bits keep all their digits", async () => {
  const wide = fc.array(fc.bigInt(0n, 2n ** 64n - 1n));
  await fc.assert(
    fc.asyncProperty(wide, async (ids) => {
      const [line] = await scanned(fileOf([`{"a": 0, "b": [${ids.join(", ")}]}`], "wide"));
      expect(line.b).toEqual(ids.map(String));
    }),
  );
});

test("numbers equal the results of JSON.parse", async () => {
  const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.maxSafeInteger());
  await fc.assert(
    fc.asyncProperty(number, async (value) => {
      const text = JSON.stringify(value);
      expect(await scanned(fileOf([`{"a": ${text}}`], "number"))).toEqual([{ a: JSON.parse(text) }]);
    }),
  );
});

test("a line is valid if and only if JSON.parse accepts it", () => {
  const scan = new JsonLineScanner({});
  // Valid JSON, with up to two characters replaced.
  const mutated = fc
    .tuple(fc.json({ maxDepth: 3 }), fc.nat(), fc.nat(), fc.constantFrom(...'{}[]",:\\u01-+.eEtfn x'))
    .map(([json, at, length, put]) => {
      const start = at % (json.length + 1);
      return json.slice(0, start) + put + json.slice(start + (length % 3));
    });
  const isValid = (text: string) => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  fc.assert(
    fc.property(fc.oneof(mutated, fc.json({ maxDepth: 3 })), (text) => {
      const bytes = Buffer.from(`${text}\n`);
      const block = new LineBlock("json");
      block.refill(bytes, bytes.length, true);
      block.next();
      scan.begin(block);
      expect(scan.invalid() === undefined).toBe(isValid(text));
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['{"b": [1]}', "f:1: a is missing, expected a number"],
  ['{"a": "1"}', 'f:1: a is "1", expected a number'],
  ['{"a": {"x": 1}}', 'f:1: a is {"x": 1}, expected a number'],
  ['{"a": 1, "b": [1, -2]}', "f:1: b[1] is -2, expected an integer from 0 to 18446744073709551615"],
  ['{"a": 1, "b": [1.5]}', "f:1: b[0] is 1.5, expected an integer from 0 to 18446744073709551615"],
  ['{"a": 1, "b": ["1"]}', 'f:1: b[0] is "1", expected an integer from 0 to 18446744073709551615'],
  [
    '{"a": 1, "b": [18446744073709551616]}',
    "f:1: b[0] is 18446744073709551616, expected an integer from 0 to 18446744073709551615",
  ],
  ['{"a": 1, "b": null}', "f:1: b is null, expected an array"],
  [`{"a": "${"long ".repeat(20)}"}`, 'f:1: a is "long long long long long long long long…, expected a number'],
  ["[1, 2]", "f:1: the line is [1, 2], expected a JSON object"],
  ['{"a": 01}', 'f:1: invalid JSON: found "1}" at column 8'],
  ['{"a": 1, "b": [1, 2', "f:1: invalid JSON: found the end of the line at column 20"],
  ['{"a": 1} {', 'f:1: invalid JSON: found "{" at column 10'],
  ['{"a": one}', 'f:1: invalid JSON: found "one}" at column 7'],
  ['{"a": -1, "b": [,]', 'f:1: invalid JSON: found ",]" at column 17'],
  [',"a": 1}', 'f:1: invalid JSON: found ",\\"a\\": 1}" at column 1'],
  [`{"a": ${"[".repeat(300)}`, "f:1: the line is nested deeper than 200 levels"],
])("%s is refused", async (line, message) => {
  expect(await failureOf(() => scanned(fileOf([line], "f")))).toBe(message);
});

test("a truncated last line is reported as such, wherever it was cut", async () => {
  const line = '{"a": -1, "b": [12, 345], "x": "y"}';
  for (let length = 1; length < line.length; length++) {
    expect(await failureOf(() => scanned(fileOf(`${line}\n${line.slice(0, length)}`, "f")))).toBe(
      "f:2: the last line is cut short: it is not valid JSON and has no line end",
    );
  }
  expect(await scanned(fileOf(`${line}\n${line}`))).toHaveLength(2);
});
