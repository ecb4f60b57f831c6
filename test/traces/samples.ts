import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parquetWriteFile } from "hyparquet-writer";
import { folder } from "./files.ts";

const text = 'Größe "a\\b"\n𝒳 …';
const json = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);

/** A Parquet file of another program: without the checksums that refuse every change of kvlab's own files. */
function parquetSample(): Buffer {
  const filename = join(folder, "sample.parquet");
  const column = (name: string, type: "INT32" | "INT64", cell: (row: number) => unknown) => ({
    ...{ name, type },
    data: upTo(40).map(cell),
  });
  const columnData = [
    column("arrival_ns", "INT64", (row) => BigInt(row)),
    column("input_tokens", "INT32", () => 7),
    column("output_tokens", "INT32", (row) => row),
    column("session", "INT32", (row) => (row % 3 === 0 ? null : row)),
  ];
  parquetWriteFile({ filename, columnData });
  return readFileSync(filename);
}

/** A small valid file of each format. */
export const samples: Readonly<Record<string, string | Buffer>> = {
  agents: json(
    upTo(6).map((i) => ({
      // The second request is earlier than the first.
      ...{
        timestamp: 1_760_587_752_017_385 + (i ^ 1) * 1e5,
        input: `${text} more`.slice(0, 14 + i),
        output: "o".repeat(i),
      },
      session_id: "09867e5c",
    })),
  ),
  aibrix: json(
    upTo(6).map((i) => ({
      timestamp: 21 * i,
      requests: [
        { "Prompt Length": 3, "Output Length": 22, prompt: text },
        { prompt: "b", prompt_length: 1, output_length: null, session_id: i },
        { prompt: "c" },
      ],
    })),
  ),
  azure: `TIMESTAMP,ContextTokens,GeneratedTokens\n${upTo(9)
    .map((i) => `2023-11-16 18:15:4${i}.6805900,${374 + i},"${i}"\n`)
    .join("")}`,
  "benchmark-results": json([
    { duration: 1.5, input_lens: [10, 20], output_lens: [3, 0], start_times: [100.25, 101], itls: [[0.1], []] },
    { input_lens: [5], output_lens: [1], errors: [""] },
  ]),
  burstgpt: `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n${upTo(9)
    .map((i) => `${5 + i},ChatGPT,472,${i},${472 + i},"Conversation log"\n`)
    .join("")}`,
  mooncake: json(
    upTo(9).map((i) => ({
      ...{ timestamp: 27 * i, input_length: 1000, output_length: 52, hash_ids: [0, i + 1] },
      ...{ session_id: "a", priority: i, cache_salt: null, marked_tokens: 5, parent: i - 1, block_size: 512 },
    })),
  ),
  "openai-chat": json([
    {
      timestamp: "2025-10-20T21:29:36.25Z",
      request: { model: "m", messages: [{ role: "user", content: text }], max_tokens: 10 },
      response: {
        usage: { prompt_tokens: 3, completion_tokens: 2 },
        choices: [{ message: { role: "assistant", content: "Hi" } }],
      },
    },
    {
      timestamp: 1_760_995_777,
      request: { model: "m", messages: [{ role: "user", content: [{ type: "text", text: "b" }] }] },
      response: {
        choices: [{ message: { role: "assistant", content: null, tool_calls: [{ function: { name: "f" } }] } }],
      },
    },
    ...upTo(4).map((i) => ({
      ...{ model: "m", created: 1_760_995_778 + i, max_tokens: 64 },
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: `${i}` }] },
      ],
    })),
  ]),
  parquet: parquetSample(),
  prompts: json(
    upTo(6).map((i) => (i === 3 ? { prompt: "b" } : { prompt: `${text} ${i}`, output_tokens: 7 * (i % 3) })),
  ),
  "qwen-bailian": json(
    upTo(9).map((i) => ({
      ...{ chat_id: i, parent_chat_id: i - 1, timestamp: 61.114 + i, input_length: 40, output_length: 132 },
      ...{ type: "text", turn: i + 1, hash_ids: [1089, 7, i] },
    })),
  ),
  sharegpt: `${JSON.stringify(
    upTo(5).map((i) => ({
      id: `c${i}`,
      conversations: [
        ...(i === 1 ? [{ from: "gpt", value: "Hi" }] : []),
        { from: "human", value: `${text} ${i}` },
        { from: "gpt", value: "Hello! \\ \u00e9" },
      ].slice(0, i === 2 ? 0 : 3),
    })),
    undefined,
    1,
  )}\n`,
  "token-ids": json(
    upTo(9).map((i) => ({
      ...{ input_toks: 3, output_toks: 2, arrival_time_ns: 46_926_808 * i },
      ...{ input_tok_ids: [5971, 220, i], output_tok_ids: [0, 9] },
    })),
  ),
  weka: json(
    upTo(5).map((i) => ({
      ...{ id: `trace_${i}`, block_size: 64, scope: "local", tool_tokens: 10, system_tokens: 5 },
      requests: [
        { t: 0, type: "n", in: 200, out: 5, api: 1.5, think: 0, ranges: [[1, 3]] },
        {
          t: 2,
          type: "subagent",
          requests: [
            {
              t: 0,
              in: 130,
              out: 5,
              ranges: [
                [1, 1],
                [9, 1],
              ],
            },
          ],
        },
        { t: 19.5, type: "s", in: 260, out: 5, ranges: [[1, 4]] },
      ],
    })),
  ),
};
