import { describe, expect, test } from "vitest";
import { tokens, Unsupported } from "../../conformance/values.ts";
import { InputError } from "../../core/errors.ts";
import { caseOf } from "./cases.ts";

const good = { id: "a", family: "f", title: "t", config: {}, ops: [{ op: "x" }] };
const refused = (text: string): string => {
  try {
    caseOf(text);
  } catch (error) {
    if (error instanceof InputError && !error.message.includes("\n")) return error.message;
    throw error;
  }
  throw new Error("it was taken");
};
const without = (field: string) => refused(JSON.stringify({ ...good, [field]: undefined }));
const with_ = (changes: object) => refused(JSON.stringify({ ...good, ...changes }));

describe("an invalid case file is refused in one line", () => {
  test("with the file, the value found and the expected one", () => {
    expect(refused("{")).toMatch(/^case\.json: is not JSON \(.+\), expected a case$/);
    expect(refused("[]")).toBe("case.json: found a list, expected one case, an object");
    expect(refused("3")).toBe("case.json: found 3, expected one case, an object");
    for (const field of ["id", "family", "title"])
      expect(without(field)).toBe(`case.json: ${field} is missing, expected a text`);
    expect(with_({ id: 3 })).toBe("case.json: id is 3, expected a text");
    expect(without("config")).toBe("case.json: config is missing, expected an object");
    expect(with_({ config: [] })).toBe("case.json: config is a list, expected an object");
    expect(without("ops")).toBe("case.json: ops is missing, expected a list of operations");
    expect(with_({ ops: {} })).toBe("case.json: ops is an object, expected a list of operations");
    expect(with_({ ops: [] })).toBe("case.json: ops is empty, expected at least one operation");
    expect(with_({ ops: [{ op: "x" }, 5] })).toBe("case.json: op 2 is 5, expected an object");
    expect(with_({ ops: [{ tokens: [] }] })).toBe('case.json: op 1: "op" is missing, expected its name');
    expect(with_({ ops: [{ op: "x", expect: 1 }] })).toBe("case.json: op 1 (x): expect is 1, expected an object");
    expect(refused(`{"a": ${"[".repeat(5000)}${"]".repeat(5000)}}`)).toMatch(/nested more than 100 deep/);
  });

  test("a case without settings may have null for them, and a byte order mark", () => {
    expect(caseOf(`\uFEFF${JSON.stringify({ ...good, config: null })}`).config).toEqual({});
  });
});

describe("tokens", () => {
  test("are a list, a range, runs, or a concatenation of these", () => {
    expect(tokens([5, 6])).toEqual([5, 6]);
    expect(tokens({ range: [3, 6] })).toEqual([3, 4, 5]);
    expect(tokens({ range: [3, 3] })).toEqual([]);
    expect(
      tokens({
        rle: [
          [7, 2],
          [1, 0],
          [8, 1],
        ],
      }),
    ).toEqual([7, 7, 8]);
    expect(tokens({ concat: [{ concat: [[1], { range: [0, 2] }] }, { rle: [[4, 2]] }] })).toEqual([1, 0, 1, 4, 4]);
  });

  test("anything else is unsupported", () => {
    const strange = [
      undefined,
      null,
      5,
      "abc",
      {},
      { range: [1] },
      { range: [3, 1] },
      { range: [0, 1e12] },
      { rle: [[1, 1e12]] },
      { rle: [1, 2] },
      { concat: 4 },
      { list: [1] },
      { range: [0, 1], rle: [] },
      [1.5],
      [-1],
      [2 ** 32],
      ["a"],
      [[1]],
    ];
    for (const value of strange) expect(() => tokens(value), JSON.stringify(value)).toThrow(Unsupported);
  });
});
