import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { type ModelConfig, shapeOf } from "./model-config.ts";
import type { ModelShape } from "./model-shape.ts";

const llama2 = { model_type: "llama", vocab_size: 32_000, torch_dtype: "float16" };
const llama3 = { model_type: "llama", vocab_size: 128_256, num_key_value_heads: 8 };
const qwen2 = { model_type: "qwen2", vocab_size: 152_064 };
const qwen3 = { model_type: "qwen3", vocab_size: 151_936, num_key_value_heads: 8, head_dim: 128 };
const qwen3Moe = {
  model_type: "qwen3_moe",
  vocab_size: 151_936,
  num_key_value_heads: 4,
  head_dim: 128,
  num_experts: 128,
  num_experts_per_tok: 8,
};
const mistral = {
  model_type: "mistral",
  ...{ num_hidden_layers: 32, hidden_size: 4096, intermediate_size: 14_336, num_attention_heads: 32 },
  num_key_value_heads: 8,
};
const deepseek = {
  kv_lora_rank: 512,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
};
const gptOss = {
  model_type: "gpt_oss",
  vocab_size: 201_088,
  ...{ hidden_size: 2880, intermediate_size: 2880, num_attention_heads: 64, num_key_value_heads: 8, head_dim: 64 },
  num_experts_per_tok: 4,
  attention_bias: true,
  sliding_window: 128,
  quantization_config: { quant_method: "mxfp4" },
};

const size = (layers: number, hidden: number, ffn: number, heads: number) => ({
  num_hidden_layers: layers,
  hidden_size: hidden,
  intermediate_size: ffn,
  num_attention_heads: heads,
});

/** The relevant fields of `config.json` of common models, as published with their weights. */
const configs: Readonly<Record<string, ModelConfig>> = {
  "llama-7b": { ...llama2, ...size(32, 4096, 11_008, 32) },
  "llama-13b": { ...llama2, ...size(40, 5120, 13_824, 40) },
  "llama-2-7b": { ...llama2, ...size(32, 4096, 11_008, 32) },
  "llama-2-13b": { ...llama2, ...size(40, 5120, 13_824, 40) },
  "llama-2-70b": { ...llama2, ...size(80, 8192, 28_672, 64), num_key_value_heads: 8 },
  "llama-3.1-8b": { ...llama3, ...size(32, 4096, 14_336, 32) },
  "llama-3.1-70b": { ...llama3, ...size(80, 8192, 28_672, 64) },
  "llama-3.1-405b": { ...llama3, ...size(126, 16_384, 53_248, 128) },
  "qwen2.5-7b": { ...qwen2, ...size(28, 3584, 18_944, 28), num_key_value_heads: 4 },
  "qwen2.5-32b": { ...qwen2, ...size(64, 5120, 27_648, 40), num_key_value_heads: 8 },
  "qwen2.5-72b": { ...qwen2, ...size(80, 8192, 29_568, 64), num_key_value_heads: 8 },
  "qwen3-8b": { ...qwen3, ...size(36, 4096, 12_288, 32) },
  "qwen3-32b": { ...qwen3, ...size(64, 5120, 25_600, 64) },
  "qwen3-30b-a3b": { ...qwen3Moe, ...size(48, 2048, 6144, 32), moe_intermediate_size: 768 },
  "qwen3-235b-a22b": { ...qwen3Moe, ...size(94, 4096, 12_288, 64), moe_intermediate_size: 1536 },
  "mistral-7b-v0.1": { ...mistral, vocab_size: 32_000, sliding_window: 4096 },
  "mistral-7b-v0.3": { ...mistral, vocab_size: 32_768 },
  "mixtral-8x7b": {
    ...mistral,
    model_type: "mixtral",
    vocab_size: 32_000,
    num_local_experts: 8,
    num_experts_per_tok: 2,
  },
  "deepseek-v2-lite": {
    ...deepseek,
    ...size(27, 2048, 10_944, 16),
    model_type: "deepseek_v2",
    vocab_size: 102_400,
    n_routed_experts: 64,
    n_shared_experts: 2,
    num_experts_per_tok: 6,
    moe_intermediate_size: 1408,
    first_k_dense_replace: 1,
  },
  "deepseek-v3": {
    ...deepseek,
    ...size(61, 7168, 18_432, 128),
    model_type: "deepseek_v3",
    vocab_size: 129_280,
    q_lora_rank: 1536,
    n_routed_experts: 256,
    n_shared_experts: 1,
    num_experts_per_tok: 8,
    moe_intermediate_size: 2048,
    first_k_dense_replace: 3,
    quantization_config: { quant_method: "fp8" },
  },
  "gpt-oss-20b": { ...gptOss, num_hidden_layers: 24, num_local_experts: 32 },
  "gpt-oss-120b": { ...gptOss, num_hidden_layers: 36, num_local_experts: 128 },
};

const aliases: Readonly<Record<string, string>> = {
  "llama-3-8b": "llama-3.1-8b",
  "llama-3-70b": "llama-3.1-70b",
  "llama-3.3-70b": "llama-3.1-70b",
  "mistral-7b": "mistral-7b-v0.3",
  "mixtral-8x7b-v0.1": "mixtral-8x7b",
  "deepseek-r1": "deepseek-v3",
};

export const modelNames: readonly string[] = Object.keys(configs);

/** A common model, by its short name or the name of its weights ("meta-llama/Llama-3.1-8B"). @throws InputError */
export function modelNamed(name: string): ModelShape {
  const short = name
    .toLowerCase()
    .replace(/^.*\//, "")
    .replace(/^meta-llama/, "llama")
    .replaceAll(/-(instruct|chat|hf|base)(?=-|$)/g, "")
    .replace(/-2507$/, "");
  const known = Object.hasOwn(aliases, short) ? aliases[short] : short;
  if (Object.hasOwn(configs, known)) return shapeOf(known, configs[known], known);
  const near = nearest(short, [...modelNames, ...Object.keys(aliases)]);
  const hint = near
    ? `did you mean "${near}"?`
    : `expected one of ${modelNames.join(", ")}, or the path of a config.json`;
  throw new InputError(`no model "${name}": ${hint}`);
}
