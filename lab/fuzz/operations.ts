import fc from "fast-check";
import type { Trace } from "../../core/trace/trace.ts";
import type { Operation } from "../run/operations-file.ts";

type OperationName = Operation["operation"];

interface Draft {
  readonly operation: OperationName;
  readonly before: number;
  /** Number of requests between the request before which it runs and the earlier one whose prefix it names. */
  readonly ago: number;
  readonly tokens: number;
  readonly name: string;
  readonly blocks: number;
}

export const operationNames: readonly OperationName[] = [
  ...(["evict", "reset", "pin", "pin", "pin", "pin", "pin", "pin", "unpin", "unpin", "unpin", "delete"] as const),
  ...(["pause", "resume", "close", "expect", "keep", "drop"] as const),
];

/** Operations before some requests of a trace; shrunk to none. */
export const anyOperations = (names: readonly OperationName[]): fc.Arbitrary<(trace: Trace) => Operation[]> =>
  fc
    .oneof(
      { withCrossShrink: true },
      fc.constant([]),
      fc.array(
        fc.record({
          operation: fc.constantFrom(...names),
          before: fc.nat(30),
          ago: fc.nat(7),
          tokens: fc.oneof(fc.constant(0), fc.nat(16)),
          name: fc.constantFrom("a", "a", "a", "b"),
          blocks: fc.integer({ min: 1, max: 8 }),
        }),
        { minLength: 1, maxLength: 8, size: "max" },
      ),
    )
    .map((drafts) => (trace) => drafts.map((draft) => operationOf(draft, trace)).sort(inOrder));

const inOrder = (a: Operation, b: Operation) => a.before - b.before;

/** Pins, deletes and signals name the prefix or session of an earlier request, if there is one. */
function operationOf({ operation, tokens, name, blocks, ...draft }: Draft, trace: Trace): Operation {
  const before = draft.before % trace.requestCount;
  const like = Math.max(0, before - 1 - draft.ago);
  const prefix = { like, ...(tokens > 0 && { tokens: Math.min(tokens, trace.inputTokens[like]) }) };
  switch (operation) {
    case "pin":
      return { before, operation, name, ...prefix };
    case "unpin":
      return { before, operation, name };
    case "delete":
      return { before, operation, ...prefix };
    case "evict":
      return { before, operation, blocks };
    case "reset":
      return { before, operation };
    case "pause":
    case "resume":
    case "close":
    case "drop":
      return { before, operation, like };
    case "expect":
      return { before, operation, like, steps: blocks, ns: blocks * 1e6 };
    case "keep":
      return { before, operation, ns: blocks * 1e6, ...prefix };
  }
}
