import { type ProfileGrid, powers } from "../../lab/calibrate/profile/grid.ts";

/** Sizes of a benchmark: of real models on a GPU, or so small that the emulator of the tests runs it. */
export interface Sizes {
  /** The model of decode, prefill and the profile. */
  readonly model: string;
  /** Name of its shape in the operator profile, as `--model` of the simulator has it. */
  readonly shapeName: string;
  /** The model that is bound by launches. */
  readonly smallModel: string;
  readonly batches: readonly number[];
  /** Rows of the products whose weights are measured in both layouts. */
  readonly layoutRows: readonly number[];
  /** Cached tokens of each decode. With the decoded ones they are in as many blocks as a graph is padded to. */
  readonly contextTokens: number;
  /** Decode steps that are measured. */
  readonly steps: number;
  readonly prefills: readonly number[];
  /** Prompt of the prefills with a cached prefix, and the cached tokens. */
  readonly cachedPrompt: number;
  readonly cached: readonly number[];
  /** Bytes of the copy that measures bandwidth. */
  readonly copyBytes: number;
  /** Rows, columns and inputs of the products that measure the matrix peak. */
  readonly product: number;
  /** The presets that serve the trace, its requests, and the blocks of 16 tokens of their cache. */
  readonly presets: readonly string[];
  readonly requests: number;
  readonly blocks: number;
  readonly profile: ProfileGrid;
}

export const sizes: Readonly<Record<string, Sizes>> = {
  "8b": {
    ...{ model: "random:8b", shapeName: "llama-3.1-8b", smallModel: "random:0.6b" },
    ...{ batches: [1, 4, 16, 64], layoutRows: [1, 2, 4, 8, 16], contextTokens: 2000, steps: 20 },
    ...{ prefills: [4096, 8192, 16_384, 32_768], cachedPrompt: 8192, cached: [0, 4096, 7168] },
    ...{ copyBytes: 2 ** 32, product: 8192 },
    ...{ presets: ["vllm", "sglang", "trt-llm", "turbomind"], requests: 200, blocks: 4000 },
    profile: {
      ...{ tokens: [...powers(1, 2048), 4096, 8192], sequences: powers(1, 256), chunks: powers(16, 2048) },
      ...{ decodes: powers(1, 256, 4), contexts: powers(64, 16_384, 4), cached: [0, ...powers(64, 16_384, 4)] },
      ...{ besideDecodes: powers(1, 256, 4), besideContexts: powers(64, 16_384, 4), mostContextTokens: 2 ** 20 },
    },
  },
  tiny: {
    ...{ model: "random:tiny", shapeName: "random:tiny", smallModel: "random:tiny-qwen3" },
    ...{ batches: [1, 3], layoutRows: [2], contextTokens: 40, steps: 2 },
    ...{ prefills: [70], cachedPrompt: 64, cached: [0, 32, 56], copyBytes: 2 ** 16, product: 64 },
    ...{ presets: ["vllm"], requests: 4, blocks: 200 },
    profile: {
      ...{ tokens: [1, 3], sequences: [1, 2], chunks: [17], cached: [0, 20], decodes: [2], contexts: [20] },
      ...{ besideDecodes: [2], besideContexts: [20], mostContextTokens: 1000 },
    },
  },
};
