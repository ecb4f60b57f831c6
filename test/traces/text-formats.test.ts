import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { readTrace, rowOf, type Trace, type TraceRow, type TraceSource } from "../../core/trace/trace.ts";
import type { OpenTraceOptions } from "../../traces/format.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf, folder, haveRecordings, recording } from "./files.ts";
import "../support/seed.ts";

interface ReadTrace {
  readonly source: TraceSource;
  readonly trace: Trace;
  readonly rows: readonly TraceRow[];
  readonly prompts: readonly string[];
  readonly outputs: readonly string[];
  readonly arrivalsMs: readonly number[];
}

const textOf = (tokens: ArrayLike<number> | undefined) => Buffer.from(Uint8Array.from(tokens ?? [])).toString();

/** A trace, and the texts of its prompts and outputs, for the byte-level tokenizer. */
async function read(paths: string | readonly string[], options: OpenTraceOptions = {}): Promise<ReadTrace> {
  const source = await openTrace(typeof paths === "string" ? [paths] : paths, options);
  const trace = await readTrace(source);
  const rows = Array.from({ length: trace.requestCount }, (_, r) => rowOf(trace, r));
  return {
    ...{ source, trace, rows },
    prompts: rows.map(({ keys }) => textOf(keys)),
    outputs: rows.map(({ generatedKeys }) => textOf(generatedKeys)),
    arrivalsMs: rows.map(({ arrivalNs }) => arrivalNs / 1e6),
  };
}

const linesOf = (values: readonly unknown[]) => fileOf(values.map((value) => JSON.stringify(value)));
const sum = (column: Uint32Array) => column.reduce((total, value) => total + value, 0);

let tokenizerFile = "";
beforeAll(async () => {
  if (!haveRecordings) return;
  // Trained here, so that merges cross the ends of messages where a tokenizer of the whole text would have them.
  const { BPE, byteLevelPreTokenizer, Tokenizer } = await import("tokenizers");
  const tokenizer = new Tokenizer(BPE.empty());
  tokenizer.setPreTokenizer(byteLevelPreTokenizer(false, false));
  tokenizer.train([recording("text/sonnet.txt")]);
  tokenizerFile = join(folder, "trained.json");
  tokenizer.save(tokenizerFile);
});

const conversation = {
  id: "c1",
  conversations: [
    { from: "system", value: "Be brief." },
    { from: "human", value: "Hi" },
    { from: "gpt", value: "Hello!" },
    { from: "human", value: "Bye" },
    { from: "gpt", value: "Bye, bye." },
  ],
};
const start = "system\nBe brief.\nuser\nHi\nassistant\n";

test("each message of a ShareGPT user is a request with the history and the next message as its output", async () => {
  const only = { conversations: [{ role: "user", content: "Hey" }] };
  const { rows, prompts, outputs, source } = await read(fileOf(JSON.stringify([conversation, only]), "c.json"));
  expect(source.format).toBe("sharegpt");
  expect(prompts).toEqual([start, "user\nHey\nassistant\n", `${start}Hello!\nuser\nBye\nassistant\n`]);
  expect(outputs).toEqual(["Hello!", "", "Bye, bye."]);
  expect(rows.map(({ session, parent }) => [session, parent])).toEqual([
    [1, -1],
    [2, -1],
    [1, 0],
  ]);
  expect(source.notes?.()).toEqual([
    "requests without an output in the trace are read with 0 output tokens: 1 of 3",
    "the trace has no arrival times: conversations start at random, one a second (--rate changes the rate)",
  ]);
});

test("ShareGPT as lines, with other names of the fields, or pretty-printed is the same trace", async () => {
  const { prompts, outputs, arrivalsMs } = await read(fileOf(JSON.stringify([conversation, conversation]), "c.json"));
  const renamed = conversation.conversations.map(({ from, value }) => ({
    role: from === "human" ? "user" : from === "gpt" ? "assistant" : from,
    content: value,
  }));
  const lines = linesOf([{ conversation: renamed }, { conversations: renamed }]);
  const pretty = fileOf(JSON.stringify([conversation, conversation], undefined, 2), "p.json");
  for (const path of [lines, pretty]) expect(await read(path)).toMatchObject({ prompts, outputs, arrivalsMs });
});

const value = fc.string({ unit: "grapheme" });
const message = (...from: string[]) => fc.record({ from: fc.constantFrom(...from), value });
/** Conversations in which the assistant replies to each message of the user. */
const messages = fc
  .array(fc.tuple(fc.array(message("system", "tool", "gpt"), { maxLength: 2 }), message("human"), message("gpt")), {
    maxLength: 4,
  })
  .map((turns) => turns.flat(2));

test.runIf(haveRecordings).each([["bytes"], ["a trained tokenizer"]])(
  "with %s, the prompt and the output of a turn are the beginning of the next turn's prompt",
  async (tokenizer) => {
    const options = tokenizer === "bytes" ? {} : { tokenizer: tokenizerFile };
    const property = fc.asyncProperty(fc.array(messages, { minLength: 1, maxLength: 5 }), async (lists) => {
      const turns = lists.flat().filter(({ from }) => from === "human").length;
      fc.pre(turns > 0);
      const { trace } = await read(
        fileOf(JSON.stringify(lists.map((conversations) => ({ conversations }))), "s.json"),
        options,
      );
      expect(trace.requestCount).toBe(turns);
      const { parent } = trace.optional;
      for (let r = 0; r < turns; r++) {
        const before = parent?.[r] ?? -1;
        if (before < 0) continue;
        const { keys, generatedKeys } = rowOf(trace, before);
        const begun = [...Array.from(keys), ...Array.from(generatedKeys!)];
        expect(Array.from(rowOf(trace, r).keys).slice(0, begun.length)).toEqual(begun);
        expect(trace.arrivalNs[r]).toBeGreaterThanOrEqual(trace.arrivalNs[before] + trace.optional.thinkNs![r]);
      }
    });
    await fc.assert(property, { numRuns: 50 });
  },
);

test("conversations without arrival times start at one a second, the same in every run", async () => {
  const many = linesOf(Array.from({ length: 3000 }, () => conversation));
  const { rows, trace } = await read(many);
  expect(trace.requestCount).toBe(6000);
  const startsS = rows.filter(({ parent }) => parent === -1).map(({ arrivalNs }) => arrivalNs / 1e9);
  expect(startsS[2999]).toBeGreaterThan(2800);
  expect(startsS[2999]).toBeLessThan(3200);
  const meanThinkS = rows.reduce((total, { thinkNs }) => total + thinkNs! / 1e9, 0) / 3000;
  expect(meanThinkS).toBeGreaterThan(37);
  expect(meanThinkS).toBeLessThan(43);
  expect([...(await read(many)).trace.arrivalNs]).toEqual([...trace.arrivalNs]);
});

test("vLLM's custom data sets are prompts as they are, with 256 output tokens where no length is given", async () => {
  const path = linesOf([{ prompt: "Größe", output_tokens: 7 }, { prompt: "b" }, { prompt: "" }]);
  const { rows, prompts, source } = await read(path);
  expect(prompts).toEqual(["Größe", "b"]);
  expect(rows.map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens])).toEqual([
    [7, 7],
    [1, 256],
  ]);
  expect(source.notes?.()).toEqual([
    "requests with an empty prompt are left out: 1 of 3",
    "the trace has no arrival times: requests arrive at random, one a second (--rate changes the rate)",
    "requests without an output length are read with 256 output tokens: 2 of 3",
  ]);
});

test("a log of the completions API has outputs, times and limits", async () => {
  const { rows, prompts, outputs, arrivalsMs } = await read(
    linesOf([
      { body: { prompt: "a", max_tokens: 9 }, response: { choices: [{ text: "xyz" }], created: 1760995776 } },
      { body: { prompt: "ab", max_tokens: 2 }, response: { choices: [{ text: "uvw" }], created: 1760995778 } },
    ]),
  );
  expect([prompts, outputs, arrivalsMs]).toEqual([
    ["a", "ab"],
    ["xyz", "uvw"],
    [0, 2000],
  ]);
  expect(rows.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([9, 3]);
});

test("AIBrix's requests have the time of their line; stated lengths that differ are reported", async () => {
  const { rows, prompts, arrivalsMs, source } = await read(
    linesOf([
      { timestamp: 21, requests: [{ prompt: "abc", "Prompt Length": 3, "Output Length": 4 }] },
      {
        timestamp: 30.5,
        requests: [
          { prompt: "ab", prompt_length: 5, output_length: null, session_id: 0 },
          { prompt: "abcd", prompt_length: 4, output_length: 2, session_id: 7 },
        ],
      },
      { timestamp: 31, requests: [] },
    ]),
  );
  expect([source.format, prompts, arrivalsMs]).toEqual(["aibrix", ["abc", "ab", "abcd"], [21, 30.5, 30.5]]);
  expect(rows.map(({ outputTokens, session }) => [outputTokens, session])).toEqual([
    [4, 0],
    [256, 1],
    [2, 2],
  ]);
  expect(source.notes?.()).toEqual([
    "requests without an output length are read with 256 output tokens: 1 of 3",
    "prompt lengths stated in the trace differ from those of the byte-level tokenizer, which are used: " +
      "in 1 of 3 requests, in total 12 stated and 9 used",
  ]);
});

test("agent traces are sorted by time, and several files are merged", async () => {
  const call = (timestamp: number, input: string, session_id: string) => ({
    timestamp,
    input,
    output: "o",
    session_id,
  });
  const first = linesOf([
    call(1760995776000000, "a", "s"),
    call(1760995776900000, "c", "s"),
    call(1760995776500000, "b", "s"),
  ]);
  const second = linesOf([
    call(1760995776400000, "x", "t"),
    call(1760995777000000, "", "t"),
    call(1760995777000000, "y", "t"),
  ]);
  const { prompts, rows, arrivalsMs, source } = await read([second, first]);
  expect([prompts, arrivalsMs]).toEqual([
    ["a", "x", "b", "c", "y"],
    [0, 400, 500, 900, 1000],
  ]);
  expect(rows.map(({ session }) => session)).toEqual([2, 1, 2, 2, 1]);
  expect(source.notes?.()).toEqual([
    "requests out of order are sorted by time: 1 of 6",
    "requests with an empty prompt are left out: 1 of 6",
  ]);
});

/** The fields of a recorded file, read by another program path: JSON.parse of whole lines. */
const recordsOf = (name: string): Record<string, unknown>[] =>
  gunzipSync(readFileSync(recording(name)))
    .toString()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

test.runIf(haveRecordings)("the recorded AIBrix trace has its requests, bytes and lengths", async () => {
  const { trace, prompts } = await read(recording("aibrix/5s.jsonl.gz"));
  expect([trace.requestCount, sum(trace.inputTokens), sum(trace.outputTokens)]).toEqual([203, 696_096, 26_610]);
  expect([trace.arrivalNs[0], trace.arrivalNs[202]]).toEqual([21e6, 4993e6]);
  const requests = recordsOf("aibrix/5s.jsonl.gz").flatMap(({ requests }) => requests as { prompt: string }[]);
  expect(prompts).toEqual(requests.map(({ prompt }) => prompt));
});

const agentFiles = [
  { name: "magagent-1aa87db6", requests: 36, promptBytes: 181_423, outputBytes: 65_918 },
  { name: "magagent-1cd047e0", requests: 40, promptBytes: 215_969, outputBytes: 52_927 },
  { name: "miniswe-06392522", requests: 30, promptBytes: 529_112, outputBytes: 12_791 },
  { name: "miniswe-07c6a78a", requests: 30, promptBytes: 644_359, outputBytes: 19_333 },
  { name: "taubench-09867e5c", requests: 31, promptBytes: 41_603, outputBytes: 6_296 },
  { name: "taubench-0c6629b0", requests: 38, promptBytes: 33_044, outputBytes: 4_076 },
];
const agentPath = ({ name }: { name: string }) => `agents/${name}.jsonl.gz`;

test.runIf(haveRecordings).each(agentFiles)(
  "the recorded agent trace $name has its requests and bytes",
  async (file) => {
    const { trace, prompts, outputs } = await read(recording(agentPath(file)));
    expect([trace.requestCount, sum(trace.inputTokens), sum(trace.outputTokens)]).toEqual([
      file.requests,
      file.promptBytes,
      file.outputBytes,
    ]);
    const sorted = recordsOf(agentPath(file))
      .filter(({ input }) => input !== "")
      .toSorted((a, b) => (a["timestamp"] as number) - (b["timestamp"] as number));
    expect(prompts).toEqual(sorted.map(({ input }) => input));
    expect(outputs).toEqual(sorted.map(({ output }) => output));
  },
);

test.runIf(haveRecordings)("all recorded agent traces are one trace in the order of time", async () => {
  const { trace, prompts } = await read(agentFiles.map((file) => recording(agentPath(file))));
  const sorted = agentFiles
    .flatMap((file) => recordsOf(agentPath(file)))
    .filter(({ input }) => input !== "")
    .toSorted((a, b) => (a["timestamp"] as number) - (b["timestamp"] as number));
  expect(prompts).toEqual(sorted.map(({ input }) => input));
  const times = sorted.map(({ timestamp }) => timestamp as number);
  expect([...trace.arrivalNs]).toEqual(times.map((time) => (time - times[0]) * 1000));
});

test.runIf(haveRecordings)(
  "a prompt that extends another one shares its tokens with a trained tokenizer, but for the last word",
  async () => {
    const { rows } = await read(recording(agentPath(agentFiles[2])), { tokenizer: tokenizerFile });
    const plain = await read(recording(agentPath(agentFiles[2])));
    for (let r = 1; r < rows.length; r++) {
      const [before, after] = [rows[r - 1], rows[r]];
      if (!plain.prompts[r].startsWith(plain.prompts[r - 1])) continue;
      const keys = Array.from(before.keys).slice(0, -8);
      expect(Array.from(after.keys).slice(0, keys.length)).toEqual(keys);
      expect(after.inputTokens).toBeLessThan(plain.rows[r].inputTokens);
    }
  },
);

test("a unit other than one token, and a tokenizer that is missing, are refused", async () => {
  const path = linesOf([{ prompt: "a" }]);
  expect(await failureOf(() => read(path, { unitTokens: 16 }))).toBe(
    "unit tokens is 16, expected 1: the keys of a prompts trace are tokens",
  );
  expect(await failureOf(() => read(path, { tokenizer: join(folder, "none.json") }))).toBe("none.json: no such file");
});

test("times in another unit are refused or reported", async () => {
  const call = (timestamp: number) => ({ timestamp, input: "a", output: "b", session_id: "s" });
  expect(await failureOf(() => read(fileOf([JSON.stringify(call(1760995776000))], "s.jsonl")))).toBe(
    "s.jsonl:1: timestamp is 1760995776000, a Unix time in ms, expected us; --time-unit ms reads it so, --time-unit us as it is",
  );
  const { arrivalsMs } = await read(linesOf([call(1760995776000), call(1760995778000)]), { timeUnit: "ms" });
  expect(arrivalsMs).toEqual([0, 2000]);
  const fast = await read(linesOf(Array.from({ length: 200 }, (_, i) => call(i))));
  expect(fast.source.notes?.()).toEqual([
    expect.stringContaining("is implausibly high: the times may be in a larger unit"),
  ]);
});
