import { describe, expect, test } from "vitest";
import { kvTokenBytes } from "../../../sim/cost/kv-bytes.ts";
import { shapeOf } from "../../../sim/cost/model-config.ts";
import { weightBytesOf } from "../../../sim/cost/model-shape.ts";
import { modelNamed, modelNames } from "../../../sim/cost/models.ts";

// As published with the weights (safetensors' index, model card or paper).
const published: Readonly<Record<string, number>> = {
  "llama-7b": 6_738_415_616,
  "llama-13b": 13_015_864_320,
  "llama-2-7b": 6_738_415_616,
  "llama-2-13b": 13_015_864_320,
  "llama-2-70b": 68_976_648_192,
  "llama-3.1-8b": 8_030_261_248,
  "llama-3.1-70b": 70_553_706_496,
  "llama-3.1-405b": 405_853_388_800,
  "qwen2.5-7b": 7_615_616_512,
  "qwen2.5-32b": 32_763_876_352,
  "qwen2.5-72b": 72_706_203_648,
  "qwen3-8b": 8_190_735_360,
  "qwen3-32b": 32_762_123_264,
  "qwen3-30b-a3b": 30_532_122_624,
  "qwen3-235b-a22b": 235_093_634_560,
  "mistral-7b-v0.1": 7_241_732_096,
  "mistral-7b-v0.3": 7_248_023_552,
  "mixtral-8x7b": 46_702_792_704,
};

describe("built-in models", () => {
  test.each(Object.entries(published))("%s has %i parameters", (name, total) => {
    expect(modelNamed(name).parameters.total).toBe(total);
  });

  // Published in billions only. The "active" parameters of gpt-oss' model card exclude the embeddings.
  test.each([
    ["mixtral-8x7b", 46.7, 12.9],
    ["qwen3-30b-a3b", 30.5, 3.35],
    ["qwen3-235b-a22b", 235.1, 22.2],
    ["deepseek-v2-lite", 15.7, 2.66],
    ["deepseek-v3", 671.0, 37.55],
    ["gpt-oss-20b", 20.91, 3.61 + 0.579],
    ["gpt-oss-120b", 116.83, 5.13 + 0.579],
  ])("%s has %d billion parameters, of which a token uses %d", (name, total, active) => {
    const { parameters } = modelNamed(name);
    expect(Math.abs(parameters.total / (total * 1e9) - 1)).toBeLessThan(0.005);
    expect(Math.abs(parameters.active / (active * 1e9) - 1)).toBeLessThan(0.005);
  });

  test("each is found by the name of its weights", () => {
    expect(modelNamed("meta-llama/Llama-3.1-8B").name).toBe("llama-3.1-8b");
    expect(modelNamed("meta-llama/Llama-2-7b-chat-hf").name).toBe("llama-2-7b");
    expect(modelNamed("mistralai/Mistral-7B-Instruct-v0.1").name).toBe("mistral-7b-v0.1");
    expect(modelNamed("mistralai/Mixtral-8x7B-Instruct-v0.1").name).toBe("mixtral-8x7b");
    expect(modelNamed("deepseek-ai/DeepSeek-R1").name).toBe("deepseek-v3");
    for (const name of modelNames) expect(modelNamed(name.toUpperCase()).name).toBe(name);
  });

  test("an unknown model is an error that names a similar one, or all", () => {
    expect(() => modelNamed("llama-3.1-9b")).toThrow('no model "llama-3.1-9b": did you mean "llama-3.1-8b"?');
    expect(() => modelNamed("gpt-2")).toThrow(
      /^no model "gpt-2": expected one of llama-7b, .* or the path of a config.json$/,
    );
  });
});

describe("the KV of a token, in bytes", () => {
  test.each([
    ["llama-3.1-8b", 2 * 32 * 8 * 128 * 2, 131_072],
    ["llama-2-7b", 2 * 32 * 32 * 128 * 2, 524_288],
    ["llama-3.1-70b", 2 * 80 * 8 * 128 * 2, 327_680],
    // Multi-head latent attention: 512 + 64 numbers per layer.
    ["deepseek-v3", 61 * 576 * 2, 70_272],
  ])("%s", (name, worked, bytes) => {
    expect(worked).toBe(bytes);
    expect(kvTokenBytes(modelNamed(name), 2)).toBe(bytes);
    expect(kvTokenBytes(modelNamed(name), 1)).toBe(bytes / 2);
  });

  test("KV heads are divided among devices until each has one; a latent vector is on all of them", () => {
    const llama = modelNamed("llama-3.1-8b");
    expect([1, 2, 8, 16].map((tp) => kvTokenBytes(llama, 2, tp))).toEqual([131_072, 65_536, 16_384, 16_384]);
    expect(kvTokenBytes(modelNamed("deepseek-v3"), 2, 8)).toBe(70_272);
  });
});

describe("bytes of weights", () => {
  test("two per parameter that is not quantised, and one matrix for tied embeddings", () => {
    expect(weightBytesOf(modelNamed("llama-3.1-8b"))).toBe(2 * 8_030_261_248);
    const tied = shapeOf("tied", { ...llama(), tie_word_embeddings: true }, "config.json");
    expect(tied.parameters.total).toBe(8_030_261_248 - 128_256 * 4096);
    expect(weightBytesOf(tied)).toBe(2 * tied.parameters.total);
  });

  const { layers, embedding } = modelNamed("llama-3.1-8b").parameters;
  const ends = 2 * 2 * embedding;
  test.each([
    ["fp8", { quant_method: "fp8" }, 1],
    ["AWQ, groups of 128 with zero points", { quant_method: "awq", bits: 4, group_size: 128 }, (4 + 20 / 128) / 8],
    ["GPTQ, groups of 128", { quant_method: "gptq", bits: 4, group_size: 128, sym: true }, (4 + 16 / 128) / 8],
    ["GPTQ, a scale a row", { quant_method: "gptq", bits: 8, group_size: -1 }, 1],
    [
      "compressed tensors of 8 bits",
      { quant_method: "compressed-tensors", config_groups: { group_0: { weights: { num_bits: 8 } } } },
      1,
    ],
  ])("%s: the layers' matrices only", (_name, quantization_config, bytes) => {
    const shape = shapeOf("quantised", { ...llama(), quantization_config }, "config.json");
    expect(weightBytesOf(shape)).toBe(Math.ceil(ends + layers * bytes));
  });

  test("experts of gpt-oss have 4.25 bits per parameter: 120b is 65 GB, which fits a GPU of 80 GB", () => {
    expect(weightBytesOf(modelNamed("gpt-oss-120b")) / 1e9).toBeCloseTo(65.2, 1);
  });
});

describe("a config.json", () => {
  const wrong = (fields: object) => () => shapeOf("own", { ...llama(), ...fields }, "my/config.json");

  test.each([
    ["another architecture", { model_type: "mamba" }, 'my/config.json: model_type is "mamba", expected one of llama, '],
    ["an unknown field", { layer_skip: 2 }, 'my/config.json: unknown field "layer_skip" of a llama model'],
    ["a size that is none", { hidden_size: "4096" }, 'my/config.json: hidden_size is "4096", expected a whole number'],
    ["a missing size", { num_hidden_layers: undefined }, "my/config.json: num_hidden_layers is missing, expected a"],
    ["heads that do not divide", { num_key_value_heads: 5 }, "32 query heads cannot share 5 KV heads"],
    ["an unknown type", { torch_dtype: "float64" }, 'torch_dtype is "float64", expected bfloat16'],
    [
      "an unknown quantisation",
      { quantization_config: { quant_method: "hqq" } },
      'quant_method "hqq", expected one of',
    ],
    [
      "a width that is none",
      { quantization_config: { quant_method: "awq", bits: 5 } },
      "weights of 5 bits, expected 2, 3, 4 or 8",
    ],
    ["a flag that is none", { tie_word_embeddings: "no" }, 'tie_word_embeddings is "no", expected true or false'],
  ])("%s is an error of one line", (_name, fields, message) => {
    expect(wrong(fields)).toThrow(message);
  });

  test("those of common models are read as they were published", () => {
    const { parameters: built } = modelNamed("deepseek-v3");
    const { parameters, weightBytes, compute, kvNumbers } = shapeOf("own", deepseekV3, "config.json");
    expect(parameters).toEqual(built);
    expect({ weightBytes, compute, kvNumbers }).toEqual({ weightBytes: 1, compute: "fp8", kvNumbers: 576 });
    expect(shapeOf("own", qwen3Moe, "config.json").parameters).toEqual(modelNamed("qwen3-30b-a3b").parameters);
  });

  test.each([
    ["moe_layer_freq", 2, "moe_layer_freq is 2, and only 1 is supported"],
    ["n_routed_experts", 4, "8 experts per token, but only 4 experts"],
  ])("an unsupported value of %s is an error", (field, value, message) => {
    expect(() => shapeOf("own", { ...deepseekV3, [field]: value }, "c")).toThrow(message);
  });

  test("a missing object, or a list, is refused", () => {
    expect(() => shapeOf("own", [], "my/config.json")).toThrow("my/config.json: expected a JSON object");
  });

  test("the number of sliding-window layers is read from it", () => {
    const { attention_bias: _, mlp_bias: __, ...common } = llama();
    const qwen = { ...common, model_type: "qwen2", sliding_window: 4096, max_window_layers: 24 };
    expect(shapeOf("own", qwen, "c").window).toBeUndefined();
    expect(shapeOf("own", { ...qwen, use_sliding_window: true }, "c").window).toEqual({ tokens: 4096, layers: 8 });
    expect(modelNamed("mistral-7b-v0.1").window).toEqual({ tokens: 4096, layers: 32 });
    expect(modelNamed("gpt-oss-20b").window).toEqual({ tokens: 128, layers: 12 });
    expect(modelNamed("mistral-7b-v0.3").window).toBeUndefined();
  });
});

/** The config.json of Llama-3.1-8B. */
function llama() {
  return {
    architectures: ["LlamaForCausalLM"],
    attention_bias: false,
    attention_dropout: 0.0,
    bos_token_id: 128_000,
    eos_token_id: 128_001,
    hidden_act: "silu",
    hidden_size: 4096,
    initializer_range: 0.02,
    intermediate_size: 14_336,
    max_position_embeddings: 131_072,
    mlp_bias: false,
    model_type: "llama",
    num_attention_heads: 32,
    num_hidden_layers: 32,
    num_key_value_heads: 8,
    pretraining_tp: 1,
    rms_norm_eps: 1e-5,
    rope_scaling: { factor: 8.0, rope_type: "llama3" },
    rope_theta: 500_000.0,
    tie_word_embeddings: false,
    torch_dtype: "bfloat16",
    transformers_version: "4.43.0.dev0",
    use_cache: true,
    vocab_size: 128_256,
  };
}

/** The config.json of DeepSeek-V3. */
const deepseekV3 = {
  architectures: ["DeepseekV3ForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  auto_map: { AutoConfig: "configuration_deepseek.DeepseekV3Config" },
  bos_token_id: 0,
  eos_token_id: 1,
  ep_size: 1,
  first_k_dense_replace: 3,
  hidden_act: "silu",
  hidden_size: 7168,
  initializer_range: 0.02,
  intermediate_size: 18_432,
  kv_lora_rank: 512,
  max_position_embeddings: 163_840,
  model_type: "deepseek_v3",
  moe_intermediate_size: 2048,
  moe_layer_freq: 1,
  n_group: 8,
  n_routed_experts: 256,
  n_shared_experts: 1,
  norm_topk_prob: true,
  num_attention_heads: 128,
  num_experts_per_tok: 8,
  num_hidden_layers: 61,
  num_key_value_heads: 128,
  num_nextn_predict_layers: 1,
  q_lora_rank: 1536,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  quantization_config: {
    activation_scheme: "dynamic",
    fmt: "e4m3",
    quant_method: "fp8",
    weight_block_size: [128, 128],
  },
  rms_norm_eps: 1e-6,
  rope_scaling: { type: "yarn", factor: 40 },
  rope_theta: 10_000,
  routed_scaling_factor: 2.5,
  scoring_func: "sigmoid",
  tie_word_embeddings: false,
  topk_group: 4,
  topk_method: "noaux_tc",
  torch_dtype: "bfloat16",
  transformers_version: "4.33.1",
  use_cache: true,
  v_head_dim: 128,
  vocab_size: 129_280,
};

/** The config.json of Qwen3-30B-A3B. */
const qwen3Moe = {
  architectures: ["Qwen3MoeForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 151_643,
  decoder_sparse_step: 1,
  eos_token_id: 151_645,
  head_dim: 128,
  hidden_act: "silu",
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 6144,
  max_position_embeddings: 40_960,
  max_window_layers: 48,
  mlp_only_layers: [],
  model_type: "qwen3_moe",
  moe_intermediate_size: 768,
  norm_topk_prob: true,
  num_attention_heads: 32,
  num_experts: 128,
  num_experts_per_tok: 8,
  num_hidden_layers: 48,
  num_key_value_heads: 4,
  output_router_logits: false,
  rms_norm_eps: 1e-6,
  rope_scaling: null,
  rope_theta: 1_000_000.0,
  router_aux_loss_coef: 0.001,
  sliding_window: null,
  tie_word_embeddings: false,
  torch_dtype: "bfloat16",
  transformers_version: "4.51.0",
  use_cache: true,
  use_sliding_window: false,
  vocab_size: 151_936,
};
