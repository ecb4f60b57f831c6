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

  // Known in billions only. What is "active" leaves the table of embeddings out in gpt-oss' model card.
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

  test("each is known by the name that its weights have", () => {
    expect(modelNamed("meta-llama/Llama-3.1-8B").name).toBe("llama-3.1-8b");
    expect(modelNamed("meta-llama/Llama-2-7b-chat-hf").name).toBe("llama-2-7b");
    expect(modelNamed("deepseek-ai/DeepSeek-R1").name).toBe("deepseek-v3");
    for (const name of modelNames) expect(modelNamed(name.toUpperCase()).name).toBe(name);
  });

  test("an unknown one is an error that names a near one, or all", () => {
    expect(() => modelNamed("llama-3.1-9b")).toThrow('no model "llama-3.1-9b": did you mean "llama-3.1-8b"?');
    expect(() => modelNamed("gpt-2")).toThrow(
      /^no model "gpt-2": expected one of llama-7b, .* or the path of a config.json$/,
    );
  });
});

describe("what a token stores, in bytes", () => {
  test.each([
    ["llama-3.1-8b", 2 * 32 * 8 * 128 * 2, 131_072],
    ["llama-2-7b", 2 * 32 * 32 * 128 * 2, 524_288],
    ["llama-3.1-70b", 2 * 80 * 8 * 128 * 2, 327_680],
    // Multi-head latent attention: 512 + 64 numbers a layer.
    ["deepseek-v3", 61 * 576 * 2, 70_272],
  ])("%s", (name, worked, bytes) => {
    expect(worked).toBe(bytes);
    expect(kvTokenBytes(modelNamed(name), 2)).toBe(bytes);
    expect(kvTokenBytes(modelNamed(name), 1)).toBe(bytes / 2);
  });

  test("heads are spread over devices until each has one; a latent vector is on all of them", () => {
    const llama = modelNamed("llama-3.1-8b");
    expect([1, 2, 8, 16].map((tp) => kvTokenBytes(llama, 2, tp))).toEqual([131_072, 65_536, 16_384, 16_384]);
    expect(kvTokenBytes(modelNamed("deepseek-v3"), 2, 8)).toBe(70_272);
  });
});

describe("bytes of weights", () => {
  test("two a parameter of what is not quantised, and one table where logits use that of the tokens", () => {
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

  test("experts of gpt-oss have 4.25 bits a number: 120b is the 65 GB that one GPU of 80 GB holds", () => {
    expect(weightBytesOf(modelNamed("gpt-oss-120b")) / 1e9).toBeCloseTo(65.2, 1);
  });
});

describe("a config.json", () => {
  const wrong = (fields: object) => () => shapeOf("own", { ...llama(), ...fields }, "my/config.json");

  test.each([
    ["another architecture", { model_type: "mamba" }, 'my/config.json: model_type is "mamba", expected one of llama, '],
    ["a field that nobody knows", { layer_skip: 2 }, 'my/config.json: unknown field "layer_skip" of a llama model'],
    ["a size that is none", { hidden_size: "4096" }, 'my/config.json: hidden_size is "4096", expected a whole number'],
    ["a missing size", { num_hidden_layers: undefined }, "my/config.json: num_hidden_layers is missing, expected a"],
    ["heads that do not divide", { num_key_value_heads: 5 }, "32 heads cannot share 5 heads of keys and values"],
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

  test("nothing, or a list, is none", () => {
    expect(() => shapeOf("own", [], "my/config.json")).toThrow("my/config.json: expected a JSON object");
  });

  test("layers with a window are those that it says", () => {
    const { attention_bias: _, mlp_bias: __, ...common } = llama();
    const qwen = { ...common, model_type: "qwen2", sliding_window: 4096, max_window_layers: 24 };
    expect(shapeOf("own", qwen, "c").window).toBeUndefined();
    expect(shapeOf("own", { ...qwen, use_sliding_window: true }, "c").window).toEqual({ tokens: 4096, layers: 8 });
    expect(modelNamed("mistral-7b-v0.1").window).toEqual({ tokens: 4096, layers: 32 });
    expect(modelNamed("gpt-oss-20b").window).toEqual({ tokens: 128, layers: 12 });
    expect(modelNamed("mistral-7b-v0.3").window).toBeUndefined();
  });
});

/** That of Llama-3.1-8B. */
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
