import type { Experiment, Headline, Row } from "./experiment.ts";
import { type Prompt, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Machine, type Measured } from "./runner.ts";

/** Groups of prompts that share a prefix; the groups take turns in the trace. */
const grouping = (count: number, groups: number, inputTokens: number, sharedTokens: number, outputTokens: number) =>
  traceOf(
    Array.from(
      { length: count },
      (_, i): Prompt => ({
        prefix: { id: i % groups, tokens: sharedTokens },
        ownTokens: inputTokens - sharedTokens,
        outputTokens,
      }),
    ),
  );

const outputTokens = 30;
const outputLengths = [1, outputTokens, 128] as const;

/**
 * The two measurements of groups, in seconds. `pool` is vLLM's `generate` with the prefix length given, so that the requests are
 * served in order of arrival with the hits of the pool; `warmUp` and `inference` are parts of `groups`.
 */
const measured = [
  {
    count: 107,
    inputTokens: 550,
    sharedTokens: 530,
    published: { pool: 3.52, groups: 7.79, warmUp: 0.13, inference: 7.24, sglang: 2.7 },
  },
  {
    count: 500,
    inputTokens: 780,
    sharedTokens: 752,
    published: { pool: 12.9, groups: 31, warmUp: 0.12, inference: 29.12, sglang: 12.5 },
  },
] as const;

/** Numbers of prefixes and of sequences at once that are not published; their effect is stated, not compared. */
const prefixCounts = [4, 25] as const;
const batchSizes = [1, 4, 16, 64] as const;

export const prefixPool: Experiment = {
  name: "prefix-pool",
  about: "pool of marked prefixes, and serving requests in groups by prefix, compared with plain batches and SGLang",
  source: "vLLM PrefixPool (PR 1669), PrefixTrie and PrefixGroup, which extend it (2023)",
  async run(runner: ExperimentRunner) {
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const add = (configuration: string, run: Measured, published?: number) => {
      const { makespanS, hitRatioToken, batchMean } = commonMetrics(run);
      rows.push({
        configuration,
        ...(published !== undefined && { published: { makespanS: published } }),
        simulated: { makespanS, hitRatioToken, batchMean, steps: run.sums.count },
      });
      return makespanS;
    };
    const speedups = await addPool(runner, add, headlines);
    const machine = runner.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const explained: string[] = [];
    for (const each of measured) explained.push(await addGroups(runner, machine, each, add, headlines));
    return {
      workload:
        `13B: 100 prompts of 700 tokens, 596 of them shared by all, outputs of ${outputLengths.join(", ")}. 7B: 107 prompts of 550 (530 ` +
        `shared) and 500 of 780 (752 shared), outputs of ${outputTokens}. All arrive at once. Neither the GPU nor the number of ` +
        "prefixes is published: an A100 with 80 GB and one prefix for all prompts are assumed.",
      rows,
      headlines,
      explanations: [
        `The pool saves only prefill, so its gain depends on the outputs: ${speedups.join(", ")} tokens. ` +
          "It would be 700 / 104 = 6.7 if nothing else took time and the eleven prompts of the first step hit the prefix, too.",
        "The published time of generate is that of the pool, because the prefix length was given: the same hits as with groups, in order of " +
          "arrival. Groups cannot be slower by their order: here they take less time, because the first prompt of a group " +
          "computes the prefix for the others. Their author expected the same time and did not find the cause.",
        ...explained,
        "So neither hits nor the number of prefixes explain the publication; of the causes simulated here, only smaller batches " +
          "do. Their size is not published, and to infer it from the published times would not be an agreement with these times.",
      ],
    };
  },
};

type Add = (configuration: string, run: Measured, published?: number) => number;

/** The pool on and off, 13B; returns its gain by output length. */
async function addPool(runner: ExperimentRunner, add: Add, headlines: Headline[]): Promise<string[]> {
  const machine = runner.machine({ model: "llama-13b", gpu: "a100-80gb" });
  const speedups: string[] = [];
  for (const length of outputLengths) {
    const trace = grouping(100, 1, 700, 596, length);
    const plain = await runner.run(trace, { machine, preset: "prefix-pool", index: "none" });
    const pool = await runner.run(trace, { machine, preset: "prefix-pool" });
    const ratio = plain.throughput.makespanS / pool.throughput.makespanS;
    speedups.push(`${ratio.toFixed(1)} with outputs of ${length}`);
    if (length !== outputTokens) continue;
    add(`13B, ${length} out: plain`, plain);
    add(`13B, ${length} out: pool`, pool);
    headlines.push({ ratio: "13B: time, plain ÷ pool", published: [2, 3], simulated: ratio });
  }
  return speedups;
}

/** Groups, pool and SGLang, 7B; returns the effect of what is not published. */
async function addGroups(
  runner: ExperimentRunner,
  machine: Machine,
  { count, inputTokens, sharedTokens, published }: (typeof measured)[number],
  add: Add,
  headlines: Headline[],
): Promise<string> {
  const traceWith = (prefixes: number) => grouping(count, prefixes, inputTokens, sharedTokens, outputTokens);
  const trie = { machine, preset: "prefix-trie" } as const;
  const trace = traceWith(1);
  add(`${count}: plain`, await runner.run(trace, { ...trie, index: "none", scheduler: "fcfs" }));
  const sglang = add(`${count}: SGLang`, await runner.run(trace, { machine, preset: "sglang" }), published.sglang);
  const pool = add(
    `${count}: trie, no groups`,
    await runner.run(trace, { ...trie, scheduler: "fcfs" }),
    published.pool,
  );
  const groups = add(`${count}: groups`, await runner.run(trace, trie), published.groups);
  headlines.push(
    {
      ratio: `${count}: time, groups ÷ generate with the pool`,
      published: published.groups / published.pool,
      simulated: groups / pool,
    },
    {
      ratio: `${count}: time, generate with the pool ÷ SGLang`,
      published: published.pool / published.sglang,
      simulated: pool / sglang,
    },
  );
  const byPrefixes: string[] = [];
  for (const prefixes of prefixCounts) {
    const prefixed = traceWith(prefixes);
    const time = add(`${count}: groups, ${prefixes} prefixes`, await runner.run(prefixed, trie));
    const inOrder = await runner.run(prefixed, { ...trie, scheduler: "fcfs" });
    byPrefixes.push(`with ${prefixes} prefixes ${(time / inOrder.throughput.makespanS).toFixed(2)}`);
  }
  const bySize: string[] = [];
  for (const size of batchSizes) {
    const inBatches = { ...trie, scheduler: "static", schedulerOptions: { "batch-size": size } };
    const time = add(`${count}: batches of ${size}`, await runner.run(trace, inBatches));
    bySize.push(`${size}: ${(time / pool).toFixed(2)}`);
  }
  const warmUp = (prefixes: number) => runner.run(grouping(prefixes, prefixes, sharedTokens, sharedTokens, 1), trie);
  const [one, many] = [await warmUp(1), await warmUp(prefixCounts[prefixCounts.length - 1])];
  return (
    `The ${count} prompts: groups ÷ generate is ${(published.groups / published.pool).toFixed(2)} as published, ${(groups / pool).toFixed(2)} here, and ${byPrefixes.join(", ")}. ` +
    `More prefixes also contradict the published ${published.warmUp} s of warm-up: computing one prefix takes ` +
    `${one.throughput.makespanS.toFixed(2)} s here, ${prefixCounts[prefixCounts.length - 1]} take ${many.throughput.makespanS.toFixed(2)} s. ` +
    `The rest, ${published.inference} s, is inference. By the number of sequences that run together, to their end, the ratio is ${bySize.join(", ")}.`
  );
}
