import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { eventNames } from "../../core/log/events.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { OperationsPlayer } from "../../lab/run/operations-file.ts";
import { simulate } from "../../sim/simulation.ts";
import { linearCost, outcome, type Row, simulationConfigOf, tracesOf } from "../support/simulated.ts";
import { json, kvlab, newFolder, refusal } from "./program.ts";

/** A folder with a file of operations. */
function folderWith(lines: readonly unknown[]): string {
  const folder = newFolder();
  const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");
  writeFileSync(join(folder, "ops.jsonl"), text);
  return folder;
}

const replay = ["replay", "--limit", "300", "--preset", "vllm", "--operations", "ops.jsonl"];

test("operations are executed before their requests, and the report has each result", async () => {
  const folder = folderWith([
    { before: 10, operation: "pin", like: 3, tokens: 181, name: "system" },
    { before: 10, operation: "pin", like: 3, tokens: 181, name: "system" },
    { before: 20, operation: "delete", like: 3, tokens: 181 },
    { before: 30, operation: "evict", blocks: 5 },
    { before: 40, operation: "reset" },
    { before: 50, operation: "unpin", name: "system" },
    { before: 51, operation: "unpin", name: "system" },
    { before: 60, operation: "reset" },
    { before: 60, operation: "delete", like: 3, tokens: 181 },
  ]);
  const { operations, cache } = await json(folder, [...replay, "--rule", "pin-blocks=20", "--audit", "--no-save"]);
  expect((operations as { result: string }[]).map(({ result }) => result)).toEqual([
    "pinned",
    "there is a pin of that name",
    "in use",
    "5 blocks",
    "in use",
    "unpinned",
    "not pinned",
    "reset",
    "not cached",
  ]);
  const plain = await json(folder, ["replay", "--limit", "300", "--preset", "vllm", "--no-save"]);
  expect(plain.operations).toBeUndefined();
  expect(cache.hitTokens).toBeLessThan(plain.cache.hitTokens);
});

test("in a closed loop, operations are executed before their requests, in the order and at the times of their arrival", () => {
  // The second turn waits for the first one's output; meanwhile the third request arrives.
  const rows: Row[] = [
    { at: 0, prompt: [1, 2, 3, 4, 5], output: 20, session: 1 },
    { at: 0, prompt: [1, 2, 3, 4, 6], output: 1, session: 1 },
    { at: 50, prompt: [7, 8, 9, 10, 11], output: 1 },
  ];
  const [trace] = tracesOf(rows);
  const config = simulationConfigOf({ blocks: 20, cost: linearCost({ fixed: 10 }) });
  const columns = blockKeysFor(config, 1).of(trace);
  const player = new OperationsPlayer(
    [
      { before: 1, operation: "evict", blocks: 1 },
      { before: 2, operation: "reset" },
    ],
    trace,
    columns,
  );
  const before: typeof config.before = (...args) => player.before(...args);
  const simulation = simulate(trace, { ...config, before, arrivals: { loop: "closed" }, events: true }, columns);
  expect(outcome(simulation, "arrivalNs")).toEqual([0, 200, 50]);
  expect(player.results.map(({ operation, result }) => `${operation}: ${result}`)).toEqual([
    "reset: in use",
    "evict: 1 blocks",
  ]);
  const { kind, timeNs } = simulation.replicas[0].log!.columns();
  const evicted = [...timeNs].filter((_, at) => eventNames[kind[at]] === "evict");
  expect(evicted).toEqual([200]);
});

test("a run with events is saved with its KV events, and with the command that repeats it", async () => {
  const folder = folderWith([{ before: 100, operation: "reset" }]);
  const { code } = await kvlab(folder, [...replay, "--events", "--out", "run"]);
  expect(code).toBe(0);
  const events = readFileSync(join(folder, "run/kv-events.jsonl"), "utf8").trimEnd().split("\n");
  const types = events.map((line) => (JSON.parse(line) as { type: string }).type);
  expect(types[0]).toBe("stored");
  expect(types.filter((type) => type === "cleared")).toHaveLength(1);
  const { command } = JSON.parse(readFileSync(join(folder, "run/run.json"), "utf8")) as { command: string };
  expect(command).toContain("--preset vllm");
  expect(command).toContain("--operations ops.jsonl");
});

describe("an invalid file of operations is refused in one line", () => {
  const cases: [lines: readonly unknown[], message: string | RegExp][] = [
    [["{"], 'ops.jsonl:1: is not JSON, expected an object such as {"before": 10, "operation": "reset"}'],
    [["3"], "ops.jsonl:1: is 3, expected an object"],
    [[{ before: 1, operation: "pinn" }], 'ops.jsonl:1: operation is "pinn", did you mean "pin"?'],
    [
      [{ before: 1 }],
      "ops.jsonl:1: operation is undefined, expected one of pin, unpin, delete, evict, reset, pause, resume, close, expect, keep, drop",
    ],
    [
      [{ before: 1, operation: "pin", like: 0 }],
      /^ops.jsonl:1: pin has no name, expected before, operation, like, name/,
    ],
    [[{ before: 1, operation: "reset", blocks: 3 }], "ops.jsonl:1: reset has blocks, expected before, operation"],
    [[{ before: -1, operation: "reset" }], "ops.jsonl:1: before is -1, expected a whole number from 0"],
    [[{ before: 1, operation: "evict", blocks: 0 }], "ops.jsonl:1: blocks is 0, expected a whole number from 1"],
    [
      [{ before: 5, operation: "reset" }, "", { before: 4, operation: "reset" }],
      "ops.jsonl:3: before is 4, expected at least 5 as in the operation above",
    ],
    [[""], "ops.jsonl: is empty, expected operations as JSON lines"],
    [["", { before: 300, operation: "reset" }], "ops.jsonl:2: before is 300, the trace has 300 requests, from 0"],
    [
      [
        { before: 1, operation: "reset" },
        { before: 3, operation: "pause", like: 301 },
      ],
      "ops.jsonl:2: like is 301, the trace has 300 requests, from 0",
    ],
    [
      ['{"before": 10, "operation": "pause", "like": 3, "like": 4}'],
      'ops.jsonl:1: the name "like" occurs twice in one object at column 49',
    ],
    [
      [{ before: 10, operation: "keep", like: 3, ns: 1, tokens: 99_999_999 }],
      /^ops.jsonl:1: tokens is 99999999, expected at most \d+, the prompt of request 3$/,
    ],
    [
      [{ before: 10, operation: "pause", like: 3, tool: 2 ** 32 }],
      "ops.jsonl:1: tool is 4294967296, expected a whole number from 1 to 4294967295",
    ],
    [
      [{ before: 10, operation: "expect", like: 3, steps: 2 ** 32 }],
      "ops.jsonl:1: steps is 4294967296, expected a whole number from 1 to 4294967295",
    ],
    [
      [{ before: 10, operation: "expect", like: 3 }],
      "ops.jsonl:1: expect has neither ns nor steps, expected at least one of them",
    ],
  ];
  test.each(cases)("%j", async (lines, message) => {
    const text = await refusal(folderWith(lines), [...replay, "--no-save"]);
    if (typeof message === "string") expect(text).toBe(message);
    else expect(text).toMatch(message);
  });

  test("a missing file, and --repeat, are refused", async () => {
    expect(await refusal(newFolder(), replay)).toBe("ops.jsonl: no such file");
    expect(await refusal(newFolder(), [...replay, "--repeat", "2"])).toBe(
      "--operations and --repeat exclude each other: operations apply to a single replay",
    );
  });
});
