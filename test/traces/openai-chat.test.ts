import { expect, test } from "vitest";
import { readTrace, rowOf } from "../../core/trace/trace.ts";
import type { OpenTraceOptions } from "../../traces/format.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf } from "./files.ts";

const textOf = (tokens: ArrayLike<number> | undefined) => Buffer.from(Uint8Array.from(tokens ?? [])).toString();

async function read(records: readonly unknown[], options: OpenTraceOptions = {}) {
  const source = await openTrace(
    [
      fileOf(
        records.map((one) => JSON.stringify(one)),
        "log.jsonl",
      ),
    ],
    options,
  );
  const trace = await readTrace(source);
  const rows = Array.from({ length: trace.requestCount }, (_, r) => rowOf(trace, r));
  return {
    ...{ format: source.format, notes: source.notes?.(), rows },
    prompts: rows.map(({ keys }) => textOf(keys)),
    outputs: rows.map(({ generatedKeys }) => textOf(generatedKeys)),
    lengths: rows.map(({ outputTokens, maxOutputTokens }) => [outputTokens, maxOutputTokens]),
    arrivalsS: rows.map(({ arrivalNs }) => arrivalNs / 1e9),
  };
}

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });

test("a log of requests and responses has prompts, outputs, times, sessions and limits", async () => {
  const hello = [{ role: "system", content: "S" }, user("Hi")];
  const { format, rows, prompts, outputs, lengths, arrivalsS } = await read([
    {
      session_id: "a",
      request: { model: "m", messages: hello, max_tokens: 50 },
      response: { created: 1760995776, choices: [{ message: assistant("Hello") }] },
    },
    {
      session_id: "a",
      request: { model: "m", messages: [...hello, assistant("Hello"), user("Bye")], max_completion_tokens: 60 },
      response: { created: 1760995779, choices: [{ message: assistant("Bye") }] },
    },
  ]);
  expect(format).toBe("openai-chat");
  expect(prompts).toEqual([
    "system\nS\nuser\nHi\nassistant\n",
    "system\nS\nuser\nHi\nassistant\nHello\nuser\nBye\nassistant\n",
  ]);
  expect([outputs, arrivalsS]).toEqual([
    ["Hello", "Bye"],
    [0, 3],
  ]);
  expect(lengths).toEqual([
    [5, 50],
    [3, 60],
  ]);
  expect(rows.map(({ session, namespace }) => [session, namespace])).toEqual([
    [1, undefined],
    [1, undefined],
  ]);
});

test("a batch file has limits as output lengths; requests without one have 256 tokens", async () => {
  const body = { messages: [user("Hi")] };
  const { lengths, outputs, notes } = await read([
    { custom_id: "1", method: "POST", url: "/v1/chat/completions", body: { ...body, max_tokens: 7 } },
    { custom_id: "2", method: "POST", url: "/v1/chat/completions", body },
  ]);
  expect([lengths, outputs]).toEqual([
    [
      [7, 7],
      [256, 256],
    ],
    ["", ""],
  ]);
  expect(notes).toEqual([
    "the trace has no arrival times: requests arrive at random, one a second (--rate changes the rate)",
    "requests without an output length are read with 256 output tokens: 1 of 2",
  ]);
});

test("without a response, an assistant's message at the end is the output", async () => {
  const { prompts, outputs, notes } = await read([
    { messages: [user("Hi"), assistant("Hello"), user("Bye"), assistant("Bye, bye")] },
    { messages: [user("Hi")] },
  ]);
  expect(prompts).toEqual(["user\nHi\nassistant\nHello\nuser\nBye\nassistant\n", "user\nHi\nassistant\n"]);
  expect(outputs).toEqual(["Bye, bye", ""]);
  expect(notes).toContain("requests without an output in the trace are read with 0 output tokens: 1 of 2");
});

test("content parts, tool calls, tool definitions and reasoning are text; images are left out and reported", async () => {
  const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } };
  const { prompts, outputs, notes } = await read([
    {
      messages: [
        user([{ type: "text", text: "What is " }, { type: "image_url", image_url: { url: "data:" } }, "this?"]),
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "1", content: "a cat" },
      ],
      tools: [{ type: "function", function: { name: "f" } }],
      response: { role: "assistant", reasoning_content: "Hm.", content: "A cat" },
    },
  ]);
  expect(prompts).toEqual([
    'tools\n[{"type":"function","function":{"name":"f"}}]\nuser\nWhat is this?\n' +
      'assistant\n{"name":"f","arguments":"{}"}\ntool\na cat\nassistant\n',
  ]);
  expect(outputs).toEqual(["Hm.A cat"]);
  expect(notes).toContain("content parts that are not text, such as images, are left out: 1");
});

test("stated lengths are output lengths without a text, and are compared with one", async () => {
  const request = { messages: [user("Hi")] };
  const usage = { prompt_tokens: 18, completion_tokens: 3 };
  const { lengths, notes } = await read([{ request, response: { usage } }]);
  expect(lengths).toEqual([[3, 3]]);
  expect(notes?.length).toBe(1);
  const other = await read([{ request, response: { usage, choices: [{ message: assistant("Hello") }] } }]);
  expect(other.lengths).toEqual([[5, 5]]);
  expect(other.notes).toContain(
    "output lengths stated in the trace differ from those of the byte-level tokenizer, which are used: " +
      "in 1 of 1 request, in total 3 stated and 5 used",
  );
});

test("requests of different models or cache salts share no content", async () => {
  const request = (model: string, cache_salt?: string) => ({ model, cache_salt, messages: [user("Hi")] });
  const { rows } = await read([request("a"), request("b"), request("a"), request("a", "x")]);
  expect(rows.map(({ namespace }) => namespace)).toEqual([0, 1, 0, 2]);
});

test.each<[readonly unknown[], readonly number[], OpenTraceOptions]>([
  [[1760995776, 1760995777.5], [0, 1.5], {}],
  [[1760995776000, 1760995777500], [0, 1.5], {}],
  [[1760995776000000, 1760995777500000], [0, 1.5], {}],
  [["2025-10-20T21:29:36.25Z", "2025-10-20T23:29:37.750+02:00"], [0, 1.5], {}],
  [["2025-10-20 21:29:36", "2025-10-20T21:29:37"], [0, 1], {}],
  [["1760995776", "1760995777"], [0, 1], {}],
  [[5, 7], [5, 7], {}],
  [[5, 7], [0.005, 0.007], { timeUnit: "ms" }],
])("the times %j are read", async (times, expected, options) => {
  const records = times.map((timestamp) => ({ timestamp, messages: [user("Hi")] }));
  const { arrivalsS, notes } = await read(records, options);
  const unclear = "times that are not Unix times are read as seconds (--time-unit states another unit): 2 of 2";
  expect(notes?.includes(unclear)).toBe(times[0] === 5 && options.timeUnit === undefined);
  expect(arrivalsS.map((time) => Math.round(time * 1e6) / 1e6)).toEqual(expected);
});

test("a log in the order of responses is sorted by time", async () => {
  const at = (created: number, text: string) => ({ created, messages: [user(text)] });
  const { prompts, notes } = await read([at(1760995779, "c"), at(1760995776, "a"), at(1760995778, "b")]);
  expect(prompts.map((prompt) => prompt[5])).toEqual(["a", "b", "c"]);
  expect(notes).toContain("requests out of order are sorted by time: 2 of 3");
});

test.each<[unknown, string]>([
  [{ created: 1760995777, messages: "Hi" }, 'messages is "Hi", expected an array of messages'],
  [
    { created: 1760995777, messages: [{ role: "user", content: 5 }] },
    "messages[0].content is 5, expected a string, an array of content parts or null",
  ],
  [{ created: 1760995777, messages: [{ content: "Hi" }] }, "messages[0].role is missing, expected a string"],
  [{ created: 1760995777, messages: ["Hi"] }, 'messages[0] is "Hi", expected an object'],
  [{ created: 1760995777 }, "messages is missing, expected an array of messages"],
  [{ messages: [user("Hi")] }, "the request has no time, expected one as in the first request"],
  [
    { created: "yesterday", messages: [user("Hi")] },
    'created is "yesterday", expected a time: a number of 0 or more, or a date such as 2025-10-15T07:54:42Z',
  ],
  [
    { created: "2025-13-45T00:00:00Z", messages: [user("Hi")] },
    'created is "2025-13-45T00:00:00Z", expected a time: a number of 0 or more, or a date such as 2025-10-15T07:54:42Z',
  ],
  [
    { created: -5, messages: [user("Hi")] },
    "created is -5, expected a time: a number of 0 or more, or a date such as 2025-10-15T07:54:42Z",
  ],
  [
    { created: 1760995777, messages: [user("Hi")], max_tokens: 1.5 },
    "max_tokens is 1.5, expected an integer from 0 to 2147483647",
  ],
  [
    { created: 1960995777, messages: [user("Hi")] },
    "the time in us is 1960995777000000, expected at most 2^53 ns (104 days) after the first request",
  ],
])("a request %j is refused", async (request, message) => {
  const good = { created: 1760995776, messages: [user("Hi")] };
  expect(await failureOf(() => read([good, request]))).toBe(`log.jsonl:2: ${message}`);
});
