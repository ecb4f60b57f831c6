import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import { readTrace, type Trace, type TraceSource } from "../../core/trace/trace.ts";
import { openTrace, traceFormats } from "../../traces/open.ts";
import { folder } from "./files.ts";
import { mutated, mutationsOf } from "./mutations.ts";
import { samples } from "./samples.ts";

/** Mutated files for each reader. `KVLAB_MUTATIONS` sets another number, KVLAB_LONG=1 the 10,000 that each reader must survive. */
const count = Number(process.env["KVLAB_MUTATIONS"] ?? (process.env["KVLAB_LONG"] === "1" ? 10_000 : 300));
/** The seed and the number of a failing file are in its message. */
const seed = Number(process.env["KVLAB_MUTATION_SEED"] ?? 1);
/** CPU time of a file: that of the wall clock depends on what else the machine does. */
const mostCpuUs = 5e6;
const mostBytes = 2 ** 30;

/** A description of the first row that is not valid; undefined if all are. */
async function invalid(batches: AsyncIterable<Trace>): Promise<string | undefined> {
  let last = 0;
  let row = 0;
  for await (const { requestCount, arrivalNs, inputTokens, unitTokens, keyStart, keys, ...trace } of batches) {
    const { parent, markedTokens, generatedStart } = trace.optional;
    for (let r = 0; r < requestCount; r++, row++) {
      const units = keyStart[r + 1] - keyStart[r];
      if (!Number.isSafeInteger(arrivalNs[r]) || arrivalNs[r] < last) return `row ${row} arrives at ${arrivalNs[r]}`;
      last = arrivalNs[r];
      if (inputTokens[r] === 0) return `row ${row} has no prompt`;
      const isWhole =
        units === Math.ceil(inputTokens[r] / unitTokens) || units === Math.floor(inputTokens[r] / unitTokens);
      if (!(trace.lengthsOnly ? units === 0 : isWhole)) return `row ${row} has ${units} keys`;
      if (trace.maxOutputTokens[r] < trace.outputTokens[r]) return `row ${row} exceeds its limit of output tokens`;
      if (generatedStart && generatedStart[r + 1] - generatedStart[r] !== trace.outputTokens[r])
        return `row ${row} has other output tokens than their number`;
      if (parent && parent[r] >= row) return `row ${row} follows ${parent[r]}`;
      if (markedTokens && markedTokens[r] > inputTokens[r]) return `row ${row} is marked`;
    }
    for (const key of keys) if (key >= trace.distinctKeys) return `the key ${key} of ${trace.distinctKeys}`;
  }
  return undefined;
}

/** The message if the input is refused, else the result. Every other error fails the test. */
async function outcomeOf<T>(action: () => Promise<T>, which: string): Promise<{ result?: T; refused?: string }> {
  const from = process.cpuUsage();
  try {
    return { result: await action() };
  } catch (error) {
    if (!(error instanceof InputError)) throw new Error(`${which}: ${String(error)}`, { cause: error });
    return { refused: error.message };
  } finally {
    const { user, system } = process.cpuUsage(from);
    expect(user + system, which).toBeLessThan(mostCpuUs);
  }
}

describe.each(traceFormats)("the reader of $name", ({ name, shape }) => {
  const isText = !shape.kinds.includes("parquet");
  const original = Buffer.from(samples[name] as Buffer);
  const path = join(folder, `${name}-mutated`);

  test("reads a sample", async () => {
    writeFileSync(path, original);
    const source = await openTrace([path]);
    expect(source.format).toBe(name);
    expect(await invalid(source.batches())).toBeUndefined();
  });

  const kinds = mutationsOf(isText);

  test(
    `ends in an error that names the file, or in a valid trace, for ${count} files with changes of ${kinds.length} kinds`,
    async () => {
      writeFileSync(path, original);
      const unchanged = await readTrace(await openTrace([path]));
      const read = async (source: TraceSource) => {
        expect(await invalid(source.batches())).toBeUndefined();
        return source;
      };
      let readable = 0;
      for (let i = 0; i < count; i++) {
        const { bytes, names, outcome } = mutated(original, i, seededRandom(seed * 1_000_003 + i), isText);
        writeFileSync(path, bytes);
        const which = `seed ${seed}, file ${i} (${names.join(", ")})`;
        // Half of the files are read in the format that they had, half are recognised.
        const format = Math.floor(i / kinds.length) % 2 === 0 ? name : undefined;
        const { result, refused } = await outcomeOf(
          async () => read(await openTrace([path], format === undefined ? {} : { format })),
          which,
        );
        if (refused !== undefined) expect(refused, which).toMatch(/^[^\n]{1,5000}$/);
        if (refused !== undefined) expect(refused.startsWith(`${path}:`), `${which}: ${refused}`).toBe(true);
        // The fields of a prompt are among those of other formats of text.
        if (result) expect([name, "prompts"], which).toContain(result.format);
        if (outcome === "refused") expect(refused, which).toBeDefined();
        if (outcome === "equal") expect(refused, which).toBeUndefined();
        if (outcome === "equal" && result) expect(await readTrace(result), which).toEqual(unchanged);
        if (result) readable++;
      }
      expect(process.memoryUsage().arrayBuffers).toBeLessThan(mostBytes);
      expect(readable).toBeGreaterThan(0);
      expect(readable).toBeLessThan(count);
    },
    count * 100 + 60_000,
  );
});
