import { describe, expect, test } from "vitest";
import { vllmPool } from "../../conformance/caches/vllm.ts";
import { runCase } from "../../conformance/run.ts";
import { Unsupported } from "../../conformance/values.ts";
import { caseOf } from "./cases.ts";

type Op = readonly [name: string, inputs?: object, expect?: object];

function ran(family: string, config: object, ops: readonly Op[]) {
  const all = ops.map(([op, inputs = {}, expected = {}]) => ({ op, ...inputs, expect: expected }));
  return runCase(caseOf(JSON.stringify({ id: "worded", family, title: "made here", config, ops: all })));
}

const pool = { num_blocks: 4, block_size: 2 };
const rulesOf = (config: object) => vllmPool({ ...pool, ...config }).rules;

describe("free_order", () => {
  test.each([
    ["unhashed-to-head,hashed-to-tail,reverse-within-request", "free-first", "reverse"],
    ["Unhashed to head; hashed to tail", "free-first", "reverse"],
    ["unhashed_first", "free-first", "reverse"],
    ["all-to-tail,reverse-within-request", "single", "reverse"],
    ["fifo, reverse within request", "single", "reverse"],
    ["append-to-tail,forward-within-request", "single", "forward"],
    ["unhashed-to-tail,hashed-to-tail,reverse", "single", "reverse"],
    ["tail", "single", "reverse"],
  ])("%s", (order, queue, within) => {
    expect(rulesOf({ free_order: order })).toMatchObject({ "free-queue": queue, "free-order": within });
  });

  test.each([
    "hashed to head, unhashed to tail",
    "hashed-to-head",
    "unhashed-to-head,all-to-tail",
    "not-all-to-tail",
    "reverse-within-request",
    "all-to-tail,forward,reverse",
    "all-to-tail,by-moonlight",
    "",
    7,
  ])("%j is not known", (order) => {
    expect(() => rulesOf({ free_order: order })).toThrow(Unsupported);
  });
});

describe("publish", () => {
  test.each(["allocation", "at allocation", "at-allocation, before compute", "on_alloc"])("%s", (publish) => {
    expect(rulesOf({ publish })["publish"]).toBe("allocation");
  });
  test.each(["step", "after forward", "after_forward", "After the forward pass", "when computed"])("%s", (publish) => {
    expect(rulesOf({ publish })["publish"]).toBe("step");
  });
  test.each(["never, not even at allocation", "never", "not at allocation", "at allocation, after forward", true])(
    "%j is not known",
    (publish) => {
      expect(() => rulesOf({ publish })).toThrow(Unsupported);
    },
  );
});

describe("store", () => {
  const verdictOf = (store: unknown) =>
    ran("block-reuse-partial", { ...pool, store }, [["add", { req: "a", tokens: [1, 2] }, { prepopulated_tokens: 0 }]])
      .verdict;
  test("is at the release of a request, in these words", () => {
    for (const store of ["at release", "on-release", "when the request ends", "At release (all but the last token)"])
      expect(verdictOf(store), store).toBe("passed");
  });
  test("anything else is not known", () => {
    for (const store of [
      "at every append",
      "not at release",
      "the last token is excluded",
      "at release, at append",
      "",
    ])
      expect(verdictOf(store), store).toBe("skipped");
  });
});

describe("formula", () => {
  const estimate = "max_i(left_i*i + sum_{j<=i} run_j)";
  const admitted = (formula: string) => {
    const peak: Op = ["peak", { capacity: 10, requests: [{ run_len: 10, left_len: 0 }] }, { admit: true }];
    const { verdict } = ran("admission-estimate", { formula }, [peak]);
    return { passed: "up to the capacity", failed: "below the capacity", skipped: "not known" }[verdict];
  };
  test.each([
    [estimate, "up to the capacity"],
    [`sort by left_len desc; ${estimate}`, "up to the capacity"],
    [`${estimate} <= capacity`, "up to the capacity"],
    [`peak = ${estimate} ≤ capacity`, "up to the capacity"],
    [`${estimate} (not strict)`, "up to the capacity"],
    [`${estimate} < capacity`, "below the capacity"],
    [`${estimate} < capacity (strict)`, "below the capacity"],
    [`${estimate} + frozen < capacity`, "below the capacity"],
    [`${estimate}, strict`, "below the capacity"],
    ["strict", "below the capacity"],
    [`${estimate} > capacity`, "not known"],
    [`${estimate} >= capacity`, "not known"],
    [`${estimate} <= capacity (strict)`, "not known"],
    ["min_i(left_i*i + sum_{j<=i} run_j)", "not known"],
    [`2*${estimate}`, "not known"],
    ["", "not known"],
  ])("%s admits %s", (formula, expected) => {
    expect(admitted(formula)).toBe(expected);
  });
});
