import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { replayTrace } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { fileFor, hasOracle, oracleFolder, traceFor } from "./recorded-traces.ts";

/*
 * Cached tokens of each request, as computed by the code of the original systems: requests one at a time, every output token but
 * the last computed and stored. Each file SYSTEM.TRACE.CAPACITY.json.gz is an array with one number per request.
 */

/** The preset that stands for an original. */
interface Original {
  readonly preset: string;
  /** Tokens per block, if they are not the preset's. */
  readonly blockTokens?: number;
  /** Blocks that the original never allocates: the null block. */
  readonly unused?: number;
}

const originals: Readonly<Record<string, Original>> = {
  lightllm: { preset: "lightllm" },
  lmdeploy: { preset: "lmdeploy" },
  "mini-sglang": { preset: "mini-sglang" },
  "nano-vllm": { preset: "nano-vllm" },
  sglang: { preset: "sglang" },
  "sglang-2501": { preset: "sglang@2501" },
  tgi: { preset: "tgi" },
  "vllm-usable": { preset: "vllm" },
  "vllm-num_gpu_blocks": { preset: "vllm", unused: 1 },
  "vllm-b256": { preset: "vllm", blockTokens: 256 },
  "vllm-usable-old": { preset: "vllm@0.19" },
  "vllm-num_gpu_blocks-old": { preset: "vllm@0.19", unused: 1 },
  "vllm-b256-old": { preset: "vllm@0.19", blockTokens: 256 },
  "vllm-v0": { preset: "vllm-v0" },
};

const arrays = hasOracle
  ? readdirSync(oracleFolder).flatMap((file) => {
      const [, system, trace, capacity] = /^(.+)\.([^.]+)\.(\d+)\.json\.gz$/.exec(file) ?? [];
      return system === undefined ? [] : [{ file, system, trace, capacity: Number(capacity) }];
    })
  : [];

const cachedTokensOf = (file: string): number[] =>
  JSON.parse(gunzipSync(readFileSync(join(oracleFolder, file))).toString()) as number[];

/** Cached tokens of each request; cached blocks in a trace of content ids whose last block may be incomplete. */
function replayed(system: string, name: string, trace: Trace, capacity: number): number[] {
  const { preset, blockTokens: own, unused = 0 } = originals[system];
  const { index, eviction, allocator, rules, blockTokens: usual } = presetRegistry.get(preset);
  const isText = trace.optional.generatedKeys !== undefined && !/-(none|unique)$/.test(name);
  // Tokens of the trace are the preset's tokens; content ids are its blocks.
  const blockTokens = isText ? (own ?? usual) : /2-/.test(name) ? 2 : trace.unitTokens;
  const blocks = (isText ? Math.floor(capacity / blockTokens) : capacity) - unused;
  const scheduler = schedulerRegistry.get("naive");
  const { requests } = replayTrace(trace, {
    index,
    eviction,
    allocator,
    scheduler,
    rules,
    blockTokens,
    blocks,
    seed: 1,
  });
  return [...(name.endsWith("-raw") ? requests.hitBlocks : requests.hitTokens)];
}

const notice = hasOracle ? "" : ` (not run: there is no ${oracleFolder})`;
describe.runIf(hasOracle)(`cached tokens of each request${notice}`, () => {
  test("every original has a preset", () => {
    const systems = new Set(arrays.map(({ system }) => system));
    expect([...systems].filter((system) => originals[system] === undefined)).toEqual([]);
    expect(arrays.length).toBeGreaterThan(0);
  });

  const names = [...new Set(arrays.map(({ trace }) => trace))].sort();
  const traces = names.map((name) => ({ name, file: fileFor(name) }));
  describe.each(traces)("on $name, file $file,", ({ name, file }) => {
    const here = arrays.filter(({ system, trace }) => trace === name && originals[system] !== undefined);
    const systems = [...new Set(here.map(({ system }) => system))].sort();
    let trace: Promise<Trace> | undefined;

    test.runIf(file !== undefined).each(systems)("are those of %s at every capacity", async (system) => {
      trace ??= traceFor(name, file!);
      for (const { capacity, file: array } of here.filter((each) => each.system === system)) {
        const expected = cachedTokensOf(array);
        const seen = replayed(system, name, await trace, capacity);
        const differing = expected.flatMap((tokens, request) =>
          seen[request] === tokens ? [] : [{ request, cached: seen[request], original: tokens }],
        );
        expect(seen.length).toBe(expected.length);
        expect(differing, array).toEqual([]);
      }
    });
  });
});
