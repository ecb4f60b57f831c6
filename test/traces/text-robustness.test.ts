import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import { readTrace, rowOf, type Trace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { folder } from "./files.ts";
import { mutations } from "./mutations.ts";

const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join("");
const text = 'Größe "a\\b"\n𝒳 …';

/** A small valid file of each format. */
const samples: Record<string, string> = {
  aibrix: lines(
    { timestamp: 21, requests: [{ "Prompt Length": 9, "Output Length": 22, prompt: text }] },
    {
      timestamp: 26,
      requests: [{ prompt: "b", prompt_length: 1, output_length: null, session_id: 4 }, { prompt: "c" }],
    },
  ),
  agents: lines(
    { timestamp: 1760995776640783, input: text, output: "o", session_id: "s" },
    { timestamp: 1760995776540783, input: `${text} more`, output: "", session_id: "s" },
  ),
  sharegpt: `${JSON.stringify(
    [
      {
        id: "1",
        conversations: [
          { from: "human", value: text },
          { from: "gpt", value: "Hello" },
        ],
      },
      {
        id: "2",
        conversations: [
          { from: "gpt", value: "Hi" },
          { from: "human", value: "Bye" },
        ],
      },
      { id: "3", conversations: [] },
    ],
    undefined,
    1,
  )}\n`,
  prompts: lines({ prompt: text, output_tokens: 5 }, { prompt: "b" }, { prompt: "c", output_tokens: 0 }),
  "openai-chat": lines(
    {
      timestamp: "2025-10-20T21:29:36.25Z",
      request: { model: "m", messages: [{ role: "user", content: text }], max_tokens: 10 },
      response: {
        usage: { prompt_tokens: 3, completion_tokens: 2 },
        choices: [{ message: { role: "assistant", content: "Hi" } }],
      },
    },
    {
      timestamp: 1760995777,
      request: { model: "m", messages: [{ role: "user", content: [{ type: "text", text: "b" }] }] },
      response: {
        choices: [{ message: { role: "assistant", content: null, tool_calls: [{ function: { name: "f" } }] } }],
      },
    },
  ),
};

samples["benchmark-results"] = lines(
  { duration: 1.5, input_lens: [10, 20], output_lens: [3, 0], start_times: [100.25, 101], itls: [[0.1], []] },
  { input_lens: [5], output_lens: [1], errors: [""] },
);

const path = join(folder, "mutated.json");

async function read(bytes: string | Buffer, format: string): Promise<Trace> {
  writeFileSync(path, bytes);
  return await readTrace(await openTrace([path], { format }));
}

/** The properties of every trace of token ids or lengths. */
function checkTrace(trace: Trace): void {
  let last = 0;
  for (let r = 0; r < trace.requestCount; r++) {
    const { arrivalNs, inputTokens, outputTokens, maxOutputTokens, keys, generatedKeys } = rowOf(trace, r);
    expect(Number.isSafeInteger(arrivalNs) && arrivalNs >= last).toBe(true);
    expect(keys.length).toBe(trace.lengthsOnly ? 0 : inputTokens);
    expect(inputTokens).toBeGreaterThan(0);
    expect(maxOutputTokens).toBeGreaterThanOrEqual(outputTokens);
    if (generatedKeys) expect(generatedKeys.length).toBe(outputTokens);
    last = arrivalNs;
  }
}

const perKind = process.env["KVLAB_LONG"] === "1" ? 700 : 25;

for (const [format, sample] of Object.entries(samples)) {
  test.each(Object.keys(mutations))(`a ${format} file is read or refused with its place after: %s`, async (kind) => {
    const original = await read(sample, format);
    const random = seededRandom(Number(process.env["KVLAB_SEED"] ?? 1) || 1);
    for (let i = 0; i < perKind; i++) {
      const { bytes, outcome } = mutations[kind](Buffer.from(sample), random);
      let message: string | undefined;
      let trace: Trace | undefined;
      try {
        trace = await read(bytes, format);
        checkTrace(trace);
      } catch (error) {
        if (!(error instanceof InputError))
          throw new Error(`mutation ${i}: ${JSON.stringify(bytes.toString())}`, { cause: error });
        message = error.message;
      }
      const shown = `mutation ${i}: ${JSON.stringify(bytes.toString("latin1"))}`;
      if (message !== undefined)
        expect(message.startsWith(path) && !message.includes("\n"), `${shown}: ${message}`).toBe(true);
      if (outcome === "refused") expect(message, shown).toBeDefined();
      if (outcome === "equal") expect(trace, `${shown}: ${message}`).toEqual(original);
    }
  });

  test(`a ${format} file that has changed is recognised as such, or refused`, async () => {
    const random = seededRandom(2);
    for (const mutate of Object.values(mutations))
      for (let i = 0; i < perKind / 5; i++) {
        writeFileSync(path, mutate(Buffer.from(sample), random).bytes);
        const found = await openTrace([path]).catch((error: unknown) => {
          if (!(error instanceof InputError)) throw error;
        });
        if (found) expect([format, "prompts"]).toContain(found.format);
      }
  });
}
