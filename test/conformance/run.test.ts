import { describe, expect, test } from "vitest";
import type { Family } from "../../conformance/family.ts";
import { runCase } from "../../conformance/run.ts";
import { Unsupported } from "../../conformance/values.ts";
import { InvariantError } from "../../core/errors.ts";
import { caseOf } from "./cases.ts";

/** Returns its input `found`. */
const echo: Family = {
  name: "echo",
  configKeys: [],
  ops: {
    say: {
      inputs: ["found", "odd"],
      expects: {
        plain: "plain",
        set: "set",
        blocks: "blocks",
        blockSet: "block-set",
        blockKeys: "block-keys",
        of: "plain",
      },
    },
  },
  start: () => ({
    run(_, { found, odd }) {
      if (odd !== undefined) throw new Unsupported("this is odd");
      return { ...(found as object), of: (expected: unknown) => (expected === "right" ? "right" : "wrong") };
    },
  }),
};

const run = (...ops: { found?: unknown; expect?: unknown; odd?: unknown }[]) =>
  runCase(
    caseOf(
      JSON.stringify({
        id: "e",
        family: "echo",
        title: "t",
        config: {},
        ops: ops.map((op) => ({ op: "say", found: {}, ...op })),
      }),
    ),
    [echo],
  );

const verdict = (found: unknown, expected: unknown) => run({ found, expect: expected }).verdict;

describe("expected and found", () => {
  test("only expected fields are compared", () => {
    expect(verdict({ plain: 1, set: [2] }, { plain: 1 })).toBe("passed");
  });

  test("a case that expects nothing is skipped, also if it has remarks, and if some operation expects something it is not", () => {
    const nothing = { verdict: "skipped", why: "has no expectations" };
    expect(run({ found: { plain: 1 } })).toEqual(nothing);
    expect(run({ expect: {} }, { expect: { comment: "as upstream" } })).toEqual(nothing);
    expect(run({ found: { plain: 1 } }, { found: { plain: 1 }, expect: { plain: 1 } }).verdict).toBe("passed");
    expect(run({ odd: 1 }).why).toBe("op 1 (say): this is odd");
  });

  test("an error of the program is a failure of the case, with its message", () => {
    const broken: Family = {
      ...echo,
      start: () => ({
        run(_, { found }) {
          if (found === "invariant") throw new InvariantError("3 blocks of 4");
          return (found as { missing: { field: Record<string, unknown> } }).missing.field;
        },
      }),
    };
    const verdictOf = (found: unknown) =>
      runCase(
        { id: "b", family: "echo", title: "t", config: {}, ops: [{ name: "say", inputs: { found }, expect: {} }] },
        [broken],
      );
    expect(verdictOf("invariant")).toEqual({
      verdict: "failed",
      why: "op 1 (say): InvariantError: 3 blocks of 4",
      op: 1,
    });
    expect(verdictOf({})).toMatchObject({
      verdict: "failed",
      why: expect.stringMatching(/^op 1 \(say\): TypeError: /),
    });
  });

  test("a missing result does not match, and null is a value", () => {
    expect(verdict({}, { plain: 0 })).toBe("failed");
    expect(verdict({}, { plain: null })).toBe("failed");
    expect(verdict({ plain: null }, { plain: null })).toBe("passed");
  });

  test("lists are ordered, objects are not, and values of different types are unequal", () => {
    expect(verdict({ plain: [1, [2]] }, { plain: [1, [2]] })).toBe("passed");
    expect(verdict({ plain: [1, 2] }, { plain: [2, 1] })).toBe("failed");
    expect(verdict({ plain: { a: 1, b: 2 } }, { plain: { b: 2, a: 1 } })).toBe("passed");
    expect(verdict({ plain: { a: 1, b: 2 } }, { plain: { a: 1 } })).toBe("failed");
    expect(verdict({ plain: 1 }, { plain: "1" })).toBe("failed");
    expect(verdict({ plain: [] }, { plain: {} })).toBe("failed");
    expect(verdict({ set: [2, 1, 1] }, { set: [1, 2, 1] })).toBe("passed");
    expect(verdict({ set: [2, 1, 1] }, { set: [1, 2, 2] })).toBe("failed");
  });

  test("the found value of a field may depend on the expected one", () => {
    expect(verdict({}, { of: "right" })).toBe("passed");
    expect(verdict({}, { of: "else" })).toBe("failed");
  });

  test("remarks are not compared", () => {
    expect(verdict({ plain: 1 }, { plain: 1, comment: "as upstream", notes: [] })).toBe("passed");
  });

  test("the first mismatch is reported with its operation, the expected and the found value", () => {
    const good = { found: { plain: 1 }, expect: { plain: 1 } };
    const bad = { found: { plain: [1], set: [2] }, expect: { plain: [2], set: [3] } };
    expect(run(good, bad, bad)).toEqual({
      verdict: "failed",
      why: "op 2 (say): plain: expected [2], found [1]",
      op: 2,
    });
  });

  test("input that the family cannot interpret makes a case skipped, also after matching results, but not after a failure", () => {
    const good = { found: { plain: 1 }, expect: { plain: 1 } };
    expect(run(good, { odd: 1 })).toEqual({ verdict: "skipped", why: "op 2 (say): this is odd", op: 2 });
    expect(run({ ...good, expect: { plain: 2 } }, { odd: 1 }).verdict).toBe("failed");
  });
});

describe("blocks are compared up to their numbers", () => {
  test("one-to-one over the whole case", () => {
    const first = { found: { blocks: [7, 8] }, expect: { blocks: [1, 2] } };
    expect(run(first, { found: { blocks: [8, 7, 7] }, expect: { blocks: [2, 1, 1] } }).verdict).toBe("passed");
    expect(run(first, { found: { blocks: 8 }, expect: { blocks: 1 } }).verdict).toBe("failed");
    expect(run(first, { found: { blocks: 8 }, expect: { blocks: 3 } }).verdict).toBe("failed");
    expect(run(first, { found: { blocks: 9 }, expect: { blocks: 2 } }).verdict).toBe("failed");
    expect(run(first, { found: { blocks: 9 }, expect: { blocks: 3 } }).verdict).toBe("passed");
  });

  test("in lists of lists, with null", () => {
    expect(verdict({ blocks: [[5], null, [5, 6]] }, { blocks: [[0], null, [0, 1]] })).toBe("passed");
    expect(verdict({ blocks: [[5], null, [6, 5]] }, { blocks: [[0], null, [0, 1]] })).toBe("failed");
    expect(verdict({ blocks: [5] }, { blocks: null })).toBe("failed");
  });

  test("as sets: known blocks must be included, and the number of others must be equal", () => {
    const first = { found: { blocks: [7, 8] }, expect: { blocks: [1, 2] } };
    const then = (found: number[], expected: number[]) =>
      run(first, { found: { blockSet: found }, expect: { blockSet: expected } }).verdict;
    expect(then([8, 7], [1, 2])).toBe("passed");
    expect(then([8, 9], [2, 3])).toBe("passed");
    expect(then([8], [1])).toBe("failed");
    expect(then([8, 9], [2])).toBe("failed");
    expect(then([8, 7], [2, 3])).toBe("failed");
    expect(then([9, 9], [3, 4])).toBe("failed");
  });

  test("as keys, of which only the named ones are compared", () => {
    const first = { found: { blocks: [7, 8] }, expect: { blocks: [1, 2] } };
    const then = (expected: object) =>
      run(first, { found: { blockKeys: { 7: 2, 8: 1 } }, expect: { blockKeys: expected } }).verdict;
    expect(then({ 1: 2 })).toBe("passed");
    expect(then({ 1: 2, 2: 1 })).toBe("passed");
    expect(then({ 2: 2 })).toBe("failed");
    expect(then({ 3: 2 })).toBe("failed");
  });
});
