import { expect, test } from "vitest";
import { readConfig } from "../../../engine/model/config.ts";
import { plainFrequencies, scaledFrequencies } from "../../../engine/model/rope.ts";
import { folderOf } from "../../support/checkpoints.ts";

type Json = Readonly<Record<string, unknown>>;

const llama2: Json = {
  architectures: ["LlamaForCausalLM"],
  ...{ model_type: "llama", vocab_size: 32_000, hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32 },
  ...{ num_key_value_heads: 32, intermediate_size: 11_008, max_position_embeddings: 4096, rms_norm_eps: 1e-5 },
  ...{ hidden_act: "silu", rope_scaling: null, tie_word_embeddings: false, bos_token_id: 1, eos_token_id: 2 },
};

const read = (config: Json, generation?: Json) =>
  readConfig(folderOf({ "config.json": config, ...(generation && { "generation_config.json": generation }) }));

function failure(config: unknown, generation?: unknown): string {
  const folder = folderOf({
    ...(config !== undefined && { "config.json": config }),
    ...(generation !== undefined && { "generation_config.json": generation }),
  });
  try {
    readConfig(folder);
  } catch (error) {
    expect(error).toHaveProperty("name", "InputError");
    expect((error as Error).message).not.toContain("\n");
    return (error as Error).message.replaceAll(`${folder}/`, "");
  }
  return "nothing: it did not fail";
}

const refused = (change: Json, config: Json = llama2) => failure({ ...config, ...change });

test("Llama 2", () => {
  expect(read(llama2)).toEqual({
    name: expect.any(String),
    architecture: "llama",
    ...{ layers: 32, hidden: 4096, heads: 32, kvHeads: 32, headDim: 128, ffn: 11_008, vocabulary: 32_000 },
    maxPositions: 4096,
    norm: { kind: "rms", epsilon: 1e-5 },
    positions: { kind: "rope", inverseFrequencies: plainFrequencies(128, 10_000), factor: 1 },
    feedForward: "silu-gated",
    biases: { qkv: false, output: false, ffn: false },
    ...{ qkNorm: false, embeddingNorm: false, window: undefined, tiedEmbeddings: false, endTokens: [2] },
  });
});

const llama3Rope = {
  ...{ factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
  rope_type: "llama3",
};

test("Llama 3: scaled frequencies, several end tokens, few key heads; the newer notation is equivalent", () => {
  const old = { ...llama2, num_key_value_heads: 8, rope_theta: 500_000, max_position_embeddings: 131_072 };
  const config = read(
    { ...old, rope_scaling: llama3Rope, eos_token_id: [128_001, 128_008] },
    { eos_token_id: [128_001, 128_009] },
  );
  const scaling = {
    kind: "llama3",
    factor: 8,
    lowFrequencyFactor: 1,
    highFrequencyFactor: 4,
    originalPositions: 8192,
  } as const;
  expect(config).toMatchObject({ kvHeads: 8, maxPositions: 131_072, endTokens: [128_001, 128_009, 128_008] });
  expect(config.positions).toEqual({
    kind: "rope",
    inverseFrequencies: scaledFrequencies(128, 500_000, scaling),
    factor: 1,
  });
  const { rope_theta, ...rest } = old;
  expect(read({ ...rest, rope_parameters: { ...llama3Rope, rope_theta } }).positions).toEqual(config.positions);
});

test("linear scaling extends the context; dynamic scaling has no effect within the trained length", () => {
  const linear = read({ ...llama2, rope_scaling: { type: "linear", factor: 4 } });
  expect(linear.maxPositions).toBe(16_384);
  expect(linear.positions).toMatchObject({ inverseFrequencies: plainFrequencies(128, 10_000).map((f) => f / 4) });
  const dynamic = read({ ...llama2, rope_scaling: { type: "dynamic", factor: 4 } });
  expect(dynamic).toEqual({ ...read(llama2), name: dynamic.name });
});

test("YaRN scales frequencies, temperature and context", () => {
  const rope = { type: "yarn", factor: 4, original_max_position_embeddings: 32_768 };
  const config = read({ ...llama2, max_position_embeddings: 32_768, rope_theta: 1e6, rope_scaling: rope });
  expect(config.maxPositions).toBe(131_072);
  expect(config.positions).toMatchObject({ factor: expect.closeTo(1.138629436111989, 12) });
  const temperature = (more: Json) => {
    const { positions } = read({ ...llama2, rope_scaling: { ...rope, factor: 40, ...more } });
    return positions.kind === "rope" ? positions.factor : undefined;
  };
  expect(temperature({ mscale: 0.75, mscale_all_dim: 1 })).toBeCloseTo(0.932629996003703, 12);
  expect(temperature({ attention_factor: 1.5 })).toBe(1.5);
});

test("Qwen2 has biases on queries, keys and values, and a window only if it is enabled for all layers", () => {
  const qwen = {
    ...llama2,
    model_type: "qwen2",
    sliding_window: 4096,
    max_window_layers: 32,
    use_sliding_window: false,
  };
  expect(read(qwen)).toMatchObject({
    architecture: "qwen2",
    biases: { qkv: true, output: false, ffn: false },
    window: undefined,
  });
  expect(read({ ...qwen, use_sliding_window: true })).toMatchObject({ window: undefined });
  expect(read({ ...qwen, use_sliding_window: true, max_window_layers: 0 })).toMatchObject({ window: 4096 });
  expect(refused({ use_sliding_window: true, max_window_layers: 28 }, qwen)).toBe(
    "config.json: max_window_layers is 28, expected 0 (one window for all layers) or no fewer than num_hidden_layers",
  );
});

test("Qwen3 normalises queries and keys, and its heads are 128 wide by default", () => {
  const config = read({
    ...llama2,
    model_type: "qwen3",
    hidden_size: 1024,
    num_attention_heads: 16,
    num_key_value_heads: 8,
  });
  expect(config).toMatchObject({ qkNorm: true, headDim: 128, hidden: 1024, heads: 16 });
});

test("Mistral's window is 4,096 by default, and none if it is null", () => {
  const mistral = { ...llama2, model_type: "mistral", num_key_value_heads: 8 };
  expect(read({ ...mistral, sliding_window: 1024 })).toMatchObject({ window: 1024, kvHeads: 8 });
  expect(read({ ...mistral, sliding_window: null })).toMatchObject({ window: undefined });
  expect(read(mistral)).toMatchObject({ window: 4096 });
  expect(read({ ...mistral, num_key_value_heads: undefined })).toMatchObject({ kvHeads: 8 });
  expect(read({ ...mistral, num_key_value_heads: null })).toMatchObject({ kvHeads: 32 });
  const types = (kind: string) => Array.from({ length: 32 }, () => kind);
  expect(read({ ...mistral, layer_types: types("full_attention") })).toMatchObject({ window: undefined });
  expect(refused({ layer_types: ["full_attention", "sliding_attention"] }, mistral)).toBe(
    'config.json: layer_types is ["full_attention","sliding_attention"], expected full_attention for all layers, or sliding_attention for all',
  );
});

test("GPT-2", () => {
  const gpt2 = {
    ...{ model_type: "gpt2", vocab_size: 50_257, n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, n_ctx: 1024 },
    ...{ activation_function: "gelu_new", layer_norm_epsilon: 1e-5, bos_token_id: 50_256, eos_token_id: 50_256 },
  };
  expect(read(gpt2)).toEqual({
    name: expect.any(String),
    architecture: "gpt2",
    ...{ layers: 12, hidden: 768, heads: 12, kvHeads: 12, headDim: 64, ffn: 3072, vocabulary: 50_257 },
    maxPositions: 1024,
    norm: { kind: "layer", epsilon: 1e-5 },
    positions: { kind: "learned" },
    feedForward: "gelu-tanh",
    biases: { qkv: true, output: true, ffn: true },
    ...{ qkNorm: false, embeddingNorm: false, window: undefined, tiedEmbeddings: true, endTokens: [50_256] },
  });
  expect(read({ ...gpt2, activation_function: "gelu" })).toMatchObject({ feedForward: "gelu" });
  expect(refused({ activation_function: "relu" }, gpt2)).toBe(
    'config.json: activation_function is "relu", expected "gelu", "gelu_new", "gelu_fast" or "gelu_pytorch_tanh"',
  );
  expect(refused({ scale_attn_by_inverse_layer_idx: true }, gpt2)).toBe(
    "config.json: scale_attn_by_inverse_layer_idx is true, expected false",
  );
});

test("BLOOM, with the old and the new names of its fields", () => {
  const bloom = { model_type: "bloom", vocab_size: 250_880, layer_norm_epsilon: 1e-5, eos_token_id: 2 };
  const names = [
    { n_embed: 1024, n_layer: 24, num_attention_heads: 16, seq_length: 2048 },
    { hidden_size: 1024, num_hidden_layers: 24, n_head: 16 },
  ];
  for (const sizes of names) {
    expect(read({ ...bloom, ...sizes })).toMatchObject({
      ...{ layers: 24, hidden: 1024, heads: 16, kvHeads: 16, headDim: 64, ffn: 4096, maxPositions: 2048 },
      positions: { kind: "alibi" },
      feedForward: "gelu-tanh",
      ...{ embeddingNorm: true, tiedEmbeddings: true },
    });
  }
  expect(refused({ ...names[0], apply_residual_connection_post_layernorm: true }, bloom)).toBe(
    "config.json: apply_residual_connection_post_layernorm is true, expected false",
  );
});

test("an unknown architecture is refused with the known ones", () => {
  expect(refused({ model_type: "gemma2" })).toBe(
    'config.json: model_type is "gemma2", expected one of llama, qwen2, qwen3, mistral, gpt2, bloom',
  );
  expect(refused({ model_type: "toString" })).toMatch(/^config\.json: model_type is "toString", expected one of/);
});

test("unsupported features are named", () => {
  expect(refused({ quantization_config: { quant_method: "gptq" } })).toBe(
    'config.json: quantization_config is {"quant_method":"gptq"}, expected none: weights are F32, F16 or BF16 here',
  );
  expect(refused({ mlp_bias: true })).toBe("config.json: mlp_bias is true, expected false");
  expect(refused({ hidden_act: "gelu" })).toBe('config.json: hidden_act is "gelu", expected "silu"');
  expect(refused({ partial_rotary_factor: 0.5 })).toBe("config.json: partial_rotary_factor is 0.5, expected 1");
  expect(refused({ rope_scaling: { type: "longrope", factor: 4 } })).toBe(
    'config.json: rope_scaling.type is "longrope", expected one of "default", "linear", "dynamic", "llama3", "yarn"',
  );
});

test("positions that differ between layers are refused, not ignored", () => {
  const rope_parameters = { full_attention: { rope_type: "default", rope_theta: 1e6 } };
  expect(refused({ rope_parameters })).toBe(
    'config.json: rope_parameters.full_attention is {"rope_type":"default","rope_theta":1000000}, expected none: all layers have the same positions here',
  );
});

test("null in newer files means the library's default", () => {
  const nulls = { head_dim: null, num_key_value_heads: null, quantization_config: null, tie_word_embeddings: null };
  expect(read({ ...llama2, ...nulls })).toMatchObject({ headDim: 128, kvHeads: 32, tiedEmbeddings: false });
});

test("missing fields and fields of another type are named", () => {
  expect(refused({ hidden_size: undefined })).toBe("config.json: hidden_size is missing, expected a positive integer");
  expect(refused({ hidden_size: "4096" })).toBe('config.json: hidden_size is "4096", expected a positive integer');
  expect(refused({ hidden_size: null })).toBe("config.json: hidden_size is null, expected a positive integer");
  expect(refused({ num_hidden_layers: 0 })).toBe("config.json: num_hidden_layers is 0, expected a positive integer");
  expect(refused({ rms_norm_eps: -1 })).toBe("config.json: rms_norm_eps is -1, expected a positive number");
  expect(refused({ tie_word_embeddings: 1 })).toBe("config.json: tie_word_embeddings is 1, expected true or false");
  expect(refused({ eos_token_id: "</s>" })).toBe(
    'config.json: eos_token_id is "</s>", expected a token id or a list of them',
  );
  expect(refused({ rope_scaling: { ...llama3Rope, factor: undefined } })).toBe(
    "config.json: rope_scaling.factor is missing, expected a positive number",
  );
  expect(refused({ rope_scaling: { ...llama3Rope, high_freq_factor: 1 } })).toBe(
    "config.json: rope_scaling.high_freq_factor is 1, expected more than low_freq_factor, which is 1",
  );
  expect(refused({ rope_scaling: "linear" })).toBe('config.json: rope_scaling is "linear", expected an object');
});

test("incompatible sizes are named", () => {
  expect(refused({ num_key_value_heads: 5 })).toBe(
    "config.json: 32 attention heads cannot share 5 key-value heads evenly",
  );
  expect(refused({ hidden_size: 4100 })).toBe(
    "config.json: hidden size 4100 cannot be divided among 32 attention heads",
  );
  expect(refused({ head_dim: 63 })).toBe(
    "config.json: head_dim is 63, expected an even number (63 cannot be rotated in pairs)",
  );
});

test("files that are missing or not JSON objects are named", () => {
  expect(failure(undefined)).toBe("config.json: no such file");
  expect(failure("{ nonsense")).toMatch(/^config\.json: not JSON: /);
  expect(failure([1])).toBe("config.json: expected a JSON object, found [1]");
  expect(failure(llama2, "{")).toMatch(/^generation_config\.json: not JSON: /);
});
