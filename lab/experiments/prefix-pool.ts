import { grouped } from "../../core/counted.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { type Prompt, traceOf } from "./requests.ts";
import { type ExperimentRunner, type Measured, usualMetrics } from "./runner.ts";

/** Prompts that share prefixes of one length in groups, their members in turn. */
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
const answers = [1, outputTokens, 128] as const;

/** The two measurements with groups. How many groups there were is not said; see the explanations. */
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
  about: "marked prefixes kept in a pool, and requests served in groups by prefix, against neither and SGLang",
  source: "vLLM PrefixPool (PR 1669), PrefixTrie and PrefixGroup, which were added to it (2023)",
  async run(laboratory: ExperimentRunner) {
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const add = (configuration: string, run: Measured, published?: number) => {
      const { makespanS, hitRatioToken, batchMean } = usualMetrics(run);
      rows.push({
        configuration,
        ...(published !== undefined && { published: { makespanS: published } }),
        simulated: { makespanS, hitRatioToken, batchMean, steps: run.sums.count },
      });
      return makespanS;
    };

    const large = laboratory.machine({ model: "llama-13b", gpu: "a100-80gb" });
    const speedups: string[] = [];
    for (const length of answers) {
      const trace = grouping(100, 1, 700, 596, length);
      const plain = await laboratory.run(trace, { machine: large, preset: "prefix-pool", index: "none" });
      const pool = await laboratory.run(trace, { machine: large, preset: "prefix-pool" });
      const ratio = plain.throughput.makespanS / pool.throughput.makespanS;
      speedups.push(`${ratio.toFixed(1)} with answers of ${length}`);
      if (length !== outputTokens) continue;
      add(`13B, ${length} out: plain`, plain);
      add(`13B, ${length} out: pool`, pool);
      headlines.push({ ratio: "13B: time, plain ÷ pool", published: [2, 3], simulated: ratio });
    }

    const small = laboratory.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const inGroups: string[] = [];
    const ofPlain: string[] = [];
    for (const { count, inputTokens, sharedTokens, groups, published } of measured) {
      const trace = grouping(count, groups, inputTokens, sharedTokens, outputTokens);
      const trie = { machine: small, preset: "prefix-trie" } as const;
      const plain = add(
        `${count}: plain`,
        await laboratory.run(trace, { ...trie, index: "none", scheduler: "fcfs" }),
        published.plain,
      );
      const sglang = add(
        `${count}: SGLang`,
        await laboratory.run(trace, { machine: small, preset: "sglang" }),
        published.sglang,
      );
      const sharing = add(`${count}: trie, no groups`, await laboratory.run(trace, { ...trie, scheduler: "fcfs" }));
      const together = add(`${count}: groups, all that fit`, await laboratory.run(trace, trie));
      const each = await laboratory.run(trace, {
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
        `the ${count} prompts take ${together.toFixed(2)} s in ${groups} groups at once, less than the ${plain.toFixed(2)} s of plain batches, and ${serial.toFixed(2)} s ` +
          `when the groups follow each other: ${each.sums.count} steps of ${each.sums.batchMean.toFixed(1)} answers`,
      );
    }
    const [, many] = measured;
    const tokens = many.count * many.inputTokens;
    return {
      workload:
        `13B: 100 prompts of 700 tokens, 596 of them shared by all, answers of ${answers.join(", ")}. 7B: 107 prompts of 550 (530 ` +
        `shared) and 500 of 780 (752 shared), answers of ${outputTokens}, in groups of 4. All at once. Neither the GPU nor the ` +
        "number of groups is published; an A100 with 80 GB is assumed.",
      rows,
      headlines,
      explanations: [
        `The pool saves computing prompts only, so what it gains depends on the answers: ${speedups.join(", ")} tokens. ` +
          "It could be 700 / 104 = 6.7 if nothing else took time and the prompts of the first step, eleven here, found the prefix as the others do.",
        `Groups were slower because they ran one after the other: ${inGroups.join("; ")}. A step of few answers reads the ` +
          "weights of the model as one of many does. The published times are what 27 and 125 batches of 30 steps take " +
          "(7.79 s / 27 = 0.29 s, 31.0 s / 125 = 0.25 s), so about four requests ran together; hence groups of 4 here. " +
          "Each group also has a step of its own to warm its prefix up. Where all groups fit into memory at once, as here, " +
          "serving them one by one is a choice, and a bad one.",
        `Plain and SGLang deviate: the ${grouped(tokens)} tokens of the ${many.count} prompts are ${((tokens * 13.5e9) / 1e15).toFixed(1)} PFLOP, ` +
          `${((tokens * 13.5e9) / 312e12).toFixed(0)} s at all of an A100's peak, and plain generation is published with 12.9 s: it must have had a faster GPU, ` +
          "shorter prompts or shared prefixes itself. That plain and SGLang are equal there (12.9 and 12.5 s) says the last. The published ratio of groups to " +
          `plain lies between ours to plain batches and to batches that share prefixes (${ofPlain.join("; ")}).`,
      ],
    };
  },
};

/** Blocks of 16 that one group needs with all its answers, by the estimate of the scheduler, and those that copies take. */
function blocksOfGroup(members: number, inputTokens: number, sharedTokens: number): number {
  const prefix = Math.floor(sharedTokens / 16);
  return prefix + members * (Math.ceil((inputTokens + outputTokens) / 16) - prefix);
}
