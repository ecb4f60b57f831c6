import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetWriteFile } from "hyparquet-writer";
import { describe, expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { openTrace, traceFormats } from "../../traces/open.ts";
import { folder } from "./files.ts";
import { mutated } from "./mutated-files.ts";
import { mutations } from "./mutations.ts";

/** Mutated files for each reader; the numbers of a failing one are in its message. */
const count = Number(process.env["KVLAB_MUTATIONS"] ?? 200);
const seed = Number(process.env["KVLAB_MUTATION_SEED"] ?? 1);
/** CPU time of a file: that of the wall clock depends on what else the machine does. */
const mostCpuUs = 5e6;
const mostBytes = 2 ** 30;

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

/** A small file of each format. */
const samples: Readonly<Record<string, string | Buffer>> = {
  agents: json(
    upTo(6).map((i) => ({
      ...{ timestamp: 1_760_587_752_017_385 + i * 1e6, input: `user: hello ${"é".repeat(i)}`, output: `out ${i}` },
      session_id: "09867e5c",
    })),
  ),
  aibrix: json(
    upTo(6).map((i) => ({
      timestamp: 21 * i,
      requests: [{ "Prompt Length": 3, "Output Length": 22, prompt: `Here is "${i}"\n` }, { prompt: "x" }],
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
  "openai-chat": json(
    upTo(6).map((i) => ({
      ...{ model: "m", created: 1_700_000_000 + i, max_tokens: 64 },
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: `${i}` }] },
      ],
    })),
  ),
  parquet: parquetSample(),
  prompts: json(upTo(6).map((i) => ({ prompt: `Once upon ${i}`, output_tokens: 7 }))),
  "qwen-bailian": json(
    upTo(9).map((i) => ({
      ...{ chat_id: i, parent_chat_id: i - 1, timestamp: 61.114 + i, input_length: 40, output_length: 132 },
      ...{ type: "text", turn: i + 1, hash_ids: [1089, 7, i] },
    })),
  ),
  sharegpt: JSON.stringify(
    upTo(5).map((i) => ({
      id: `c${i}`,
      conversations: [
        { from: "human", value: `Hi ${i}` },
        { from: "gpt", value: "Hello! \\ \u00e9" },
      ],
    })),
    undefined,
    2,
  ),
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

/** A description of the first row that is not valid; undefined if all are. */
async function invalid(batches: AsyncIterable<Trace>): Promise<string | undefined> {
  let last = 0;
  let row = 0;
  for await (const { requestCount, arrivalNs, inputTokens, unitTokens, keyStart, keys, ...trace } of batches) {
    for (let r = 0; r < requestCount; r++, row++) {
      const units = keyStart[r + 1] - keyStart[r];
      if (!Number.isSafeInteger(arrivalNs[r]) || arrivalNs[r] < last) return `row ${row} arrives at ${arrivalNs[r]}`;
      last = arrivalNs[r];
      if (inputTokens[r] === 0) return `row ${row} has no prompt`;
      const isWhole =
        units === Math.ceil(inputTokens[r] / unitTokens) || units === Math.floor(inputTokens[r] / unitTokens);
      if (!(trace.lengthsOnly ? units === 0 : isWhole)) return `row ${row} has ${units} keys`;
      if (trace.optional.parent && trace.optional.parent[r] >= row)
        return `row ${row} follows ${trace.optional.parent[r]}`;
      if (trace.optional.markedTokens && trace.optional.markedTokens[r] > inputTokens[r]) return `row ${row} is marked`;
    }
    for (const key of keys) if (key >= trace.distinctKeys) return `the key ${key} of ${trace.distinctKeys}`;
  }
  return undefined;
}

describe.each(traceFormats)("the reader of $name", ({ name, shape }) => {
  test("reads a sample", async () => {
    const path = join(folder, `${name}-sample`);
    writeFileSync(path, samples[name]);
    const source = await openTrace([path]);
    expect(source.format).toBe(name);
    expect(await invalid(source.batches())).toBeUndefined();
  });

  const isText = !shape.kinds.includes("parquet");

  test.runIf(isText).each(["lineEnds", "byteOrderMark", "blankLines", "gzip"])(
    "reads the same requests after: %s",
    async (kind) => {
      const path = join(folder, `${name}-same`);
      const read = async (bytes: Uint8Array) => {
        writeFileSync(path, bytes);
        return await readTrace(await openTrace([path]));
      };
      const original = Buffer.from(samples[name] as Buffer);
      expect(await read(mutations[kind](original, seededRandom(1)).bytes)).toEqual(await read(original));
    },
  );

  test(
    `ends in an error that names the file, or in a valid trace, for ${count} mutated files`,
    async () => {
      const original = Buffer.from(samples[name] as Buffer);
      const path = join(folder, `${name}-mutated`);
      let read = 0;
      for (let i = 0; i < count; i++) {
        const { bytes, names } = mutated(original, seededRandom(seed * 1_000_003 + i), isText);
        writeFileSync(path, bytes);
        const which = `seed ${seed}, file ${i} (${names.join(", ")})`;
        const from = process.cpuUsage();
        try {
          // Half of the files are read in the format that they had, half are recognised.
          const source = await openTrace([path], i % 2 === 0 ? { format: name } : {});
          expect(await invalid(source.batches()), which).toBeUndefined();
          read++;
        } catch (error) {
          if (!(error instanceof InputError)) throw new Error(`${which}: ${String(error)}`, { cause: error });
          expect(error.message.startsWith(`${path}:`), `${which}: ${error.message}`).toBe(true);
          expect(error.message.length, which).toBeLessThan(5000);
        }
        const { user, system } = process.cpuUsage(from);
        expect(user + system, which).toBeLessThan(mostCpuUs);
      }
      expect(process.memoryUsage().arrayBuffers).toBeLessThan(mostBytes);
      expect(read).toBeGreaterThan(0);
      expect(read).toBeLessThan(count);
    },
    count * 100 + 60_000,
  );
});
