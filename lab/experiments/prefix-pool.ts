import { grouped } from "../../core/counted.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { type Prompt, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

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

/** The two measurements with groups. The number of groups is not published; see the explanations. */
const measured = [
  {
    count: 107,
    inputTokens: 550,
    sharedTokens: 530,
    groups: 27,
    published: { plain: 3.52, groups: 7.79, sglang: 2.7 },
  },
  {
    count: 500,
    inputTokens: 780,
    sharedTokens: 752,
    groups: 125,
    published: { plain: 12.9, groups: 31, sglang: 12.5 },
  },
] as const;

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

    const large = runner.machine({ model: "llama-13b", gpu: "a100-80gb" });
    const speedups: string[] = [];
    for (const length of outputLengths) {
      const trace = grouping(100, 1, 700, 596, length);
      const plain = await runner.run(trace, { machine: large, preset: "prefix-pool", index: "none" });
      const pool = await runner.run(trace, { machine: large, preset: "prefix-pool" });
      const ratio = plain.throughput.makespanS / pool.throughput.makespanS;
      speedups.push(`${ratio.toFixed(1)} with outputs of ${length}`);
      if (length !== outputTokens) continue;
      add(`13B, ${length} out: plain`, plain);
      add(`13B, ${length} out: pool`, pool);
      headlines.push({ ratio: "13B: time, plain ÷ pool", published: [2, 3], simulated: ratio });
    }

    const small = runner.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const inGroups: string[] = [];
    const ofPlain: string[] = [];
    for (const { count, inputTokens, sharedTokens, groups, published } of measured) {
      const trace = grouping(count, groups, inputTokens, sharedTokens, outputTokens);
      const trie = { machine: small, preset: "prefix-trie" } as const;
      const plain = add(
        `${count}: plain`,
        await runner.run(trace, { ...trie, index: "none", scheduler: "fcfs" }),
        published.plain,
      );
      const sglang = add(
        `${count}: SGLang`,
        await runner.run(trace, { machine: small, preset: "sglang" }),
        published.sglang,
      );
      const sharing = add(`${count}: trie, no groups`, await runner.run(trace, { ...trie, scheduler: "fcfs" }));
      const together = add(`${count}: groups, all that fit`, await runner.run(trace, trie));
      const each = await runner.run(trace, {
        ...trie,
        blocks: blocksOfGroup(Math.ceil(count / groups), inputTokens, sharedTokens),
      });
      const serial = add(`${count}: groups, one by one`, each, published.groups);
      headlines.push(
        {
          ratio: `${count}: time, groups one by one ÷ plain`,
          published: published.groups / published.plain,
          simulated: serial / plain,
        },
        {
          ratio: `${count}: time, groups ÷ SGLang`,
          published: published.groups / published.sglang,
          simulated: serial / sglang,
        },
      );
      ofPlain.push(`${count}: ${(serial / plain).toFixed(2)} and ${(serial / sharing).toFixed(2)}`);
      inGroups.push(
        `the ${count} prompts take ${together.toFixed(2)} s with ${groups} groups at once, less than the ${plain.toFixed(2)} s of plain batches, and ${serial.toFixed(2)} s ` +
          `if the groups run one after the other: ${each.sums.count} steps of ${each.sums.batchMean.toFixed(1)} sequences`,
      );
    }
    const [, many] = measured;
    const tokens = many.count * many.inputTokens;
    return {
      workload:
        `13B: 100 prompts of 700 tokens, 596 of them shared by all, outputs of ${outputLengths.join(", ")}. 7B: 107 prompts of 550 (530 ` +
        `shared) and 500 of 780 (752 shared), outputs of ${outputTokens}, in groups of 4. All arrive at once. Neither the GPU nor the ` +
        "number of groups is published; an A100 with 80 GB is assumed.",
      rows,
      headlines,
      explanations: [
        `The pool saves only prefill, so its gain depends on the outputs: ${speedups.join(", ")} tokens. ` +
          "It would be 700 / 104 = 6.7 if nothing else took time and the eleven prompts of the first step hit the prefix, too.",
        `Groups were slower because they ran one after the other: ${inGroups.join("; ")}. A step of few sequences reads the ` +
          "model's weights as a step of many does. The published times are those of 27 and 125 batches of 30 steps " +
          "(7.79 s / 27 = 0.29 s, 31.0 s / 125 = 0.25 s), so about four requests ran together; hence groups of 4 here. " +
          "Each group also has one more step, which computes its prefix. If all groups fit into memory at once, as here, " +
          "there is no reason to serve them one by one.",
        `Plain and SGLang deviate: the ${grouped(tokens)} tokens of the ${many.count} prompts are ${((tokens * 13.5e9) / 1e15).toFixed(1)} PFLOP, ` +
          `${((tokens * 13.5e9) / 312e12).toFixed(0)} s at an A100's peak, but plain generation is published with 12.9 s: it must have had a faster GPU, ` +
          "shorter prompts or shared prefixes. That plain and SGLang are equal there (12.9 and 12.5 s) indicates shared prefixes. The published ratio of groups to " +
          `plain lies between our ratio to plain batches and our ratio to batches that share prefixes (${ofPlain.join("; ")}).`,
      ],
    };
  },
};

/** Blocks of 16 that one group needs with all its outputs, by the scheduler's estimate. */
function blocksOfGroup(members: number, inputTokens: number, sharedTokens: number): number {
  const prefix = Math.floor(sharedTokens / 16);
  return prefix + members * (Math.ceil((inputTokens + outputTokens) / 16) - prefix);
}
