import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import type { DecoderConfig, Positions } from "./decoder.ts";
import { Fields } from "./json-fields.ts";
import { type RopeScaling, scaledFrequencies, yarnTemperature } from "./rope.ts";

type Architecture = DecoderConfig["architecture"];
type Described = Omit<DecoderConfig, "name" | "architecture" | "tiedEmbeddings" | "endTokens">;

/**
 * By architecture of the transformers library: reads config.json. Defaults of absent fields are those of that library's
 * configuration classes.
 */
const architectures: Readonly<Record<Architecture, { readonly tied: boolean; describe(fields: Fields): Described }>> = {
  llama: {
    tied: false,
    describe(fields) {
      const bias = fields.flag("attention_bias", false);
      return { ...rotaryDecoder(fields, {}), biases: { qkv: bias, output: bias, ffn: false } };
    },
  },
  qwen2: {
    tied: false,
    describe: (fields) => ({
      ...rotaryDecoder(fields, { window: qwenWindow(fields) }),
      biases: { qkv: true, output: false, ffn: false },
    }),
  },
  qwen3: {
    tied: false,
    describe(fields) {
      const bias = fields.flag("attention_bias", false);
      const biases = { qkv: bias, output: bias, ffn: false };
      return { ...rotaryDecoder(fields, { headDim: 128, window: qwenWindow(fields) }), biases, qkNorm: true };
    },
  },
  mistral: {
    tied: false,
    describe(fields) {
      const window = fields.isNull("sliding_window") ? undefined : fields.countOr(4096, "sliding_window");
      const kvHeads = fields.isNull("num_key_value_heads") ? fields.count("num_attention_heads") : 8;
      return rotaryDecoder(fields, { kvHeads, window: sameInAllLayers(fields, window) });
    },
  },
  gpt2: {
    tied: true,
    describe(fields) {
      only(fields, "scale_attn_weights", true);
      only(fields, "scale_attn_by_inverse_layer_idx", false);
      only(fields, "add_cross_attention", false);
      const hidden = fields.count("n_embd", "hidden_size");
      const heads = fields.count("n_head", "num_attention_heads");
      return {
        ...layerNormDecoder(fields, hidden, heads),
        layers: fields.count("n_layer", "num_hidden_layers"),
        maxPositions: fields.count("n_positions", "max_position_embeddings", "n_ctx"),
        positions: { kind: "learned" },
        feedForward: geluOf(fields, "activation_function", "gelu_new"),
        embeddingNorm: false,
      };
    },
  },
  bloom: {
    tied: true,
    describe(fields) {
      only(fields, "apply_residual_connection_post_layernorm", false);
      const hidden = fields.count("hidden_size", "n_embed");
      const heads = fields.count("n_head", "num_attention_heads");
      return {
        ...layerNormDecoder(fields, hidden, heads),
        layers: fields.count("n_layer", "num_hidden_layers"),
        // ALiBi itself has no limit; this is the context length of the training.
        maxPositions: fields.countOr(2048, "seq_length"),
        positions: { kind: "alibi" },
        feedForward: "gelu-tanh",
        embeddingNorm: true,
      };
    },
  },
};

/**
 * Reads `config.json` and, where there is one, `generation_config.json` of a folder in the Hugging Face layout.
 *
 * @throws InputError with the file, the field, its value and the expected one, also for features that are not supported.
 */
export function readConfig(folder: string): DecoderConfig {
  const fields = Fields.read(join(folder, "config.json"));
  const architecture = architectureOf(fields);
  if (fields.has("quantization_config"))
    throw fields.wrong("quantization_config", "none: weights are F32, F16 or BF16 here");
  const { tied, describe } = architectures[architecture];
  const config: DecoderConfig = {
    name: basename(resolve(folder)),
    architecture,
    ...describe(fields),
    tiedEmbeddings: fields.flag("tie_word_embeddings", tied),
    endTokens: endTokens(folder, fields),
  };
  check(fields, config);
  return config;
}

function architectureOf(fields: Fields): Architecture {
  const name = fields.text("model_type");
  if (Object.hasOwn(architectures, name)) return name as Architecture;
  throw fields.wrong("model_type", `one of ${Object.keys(architectures).join(", ")}`);
}

/** End tokens. For chat models generation_config.json lists more of them than config.json. */
function endTokens(folder: string, fields: Fields): number[] {
  const path = join(folder, "generation_config.json");
  const tokens = existsSync(path) ? Fields.read(path).tokens("eos_token_id") : [];
  return [...new Set([...tokens, ...fields.tokens("eos_token_id")])];
}

/** Llama and similar architectures. */
function rotaryDecoder(
  fields: Fields,
  defaults: { headDim?: number; kvHeads?: number; window?: number | undefined },
): Described {
  if (fields.flag("mlp_bias", false)) throw fields.wrong("mlp_bias", "false");
  const activation = fields.textOr("silu", "hidden_act");
  if (activation !== "silu" && activation !== "swish") throw fields.wrong("hidden_act", '"silu"');
  only(fields, "partial_rotary_factor", 1);
  const hidden = fields.count("hidden_size");
  const heads = fields.count("num_attention_heads");
  const headDim = fields.countOr(defaults.headDim ?? Math.floor(hidden / heads), "head_dim");
  return {
    layers: fields.count("num_hidden_layers"),
    hidden,
    heads,
    kvHeads: fields.countOr(defaults.kvHeads ?? heads, "num_key_value_heads"),
    headDim,
    ffn: fields.count("intermediate_size"),
    vocabulary: fields.count("vocab_size"),
    ...rotary(fields, headDim),
    norm: { kind: "rms", epsilon: fields.positiveOr(1e-6, "rms_norm_eps") },
    feedForward: "silu-gated",
    biases: { qkv: false, output: false, ffn: false },
    qkNorm: false,
    embeddingNorm: false,
    window: defaults.window,
  };
}

/** GPT-2 and BLOOM: layer norms, biases everywhere, as many key heads as query heads. */
function layerNormDecoder(fields: Fields, hidden: number, heads: number) {
  return {
    hidden,
    heads,
    kvHeads: heads,
    headDim: Math.floor(hidden / heads),
    ffn: fields.countOr(4 * hidden, "n_inner"),
    vocabulary: fields.count("vocab_size"),
    norm: { kind: "layer", epsilon: fields.positiveOr(1e-5, "layer_norm_epsilon") },
    biases: { qkv: true, output: true, ffn: true },
    qkNorm: false,
    window: undefined,
  } as const;
}

function geluOf(fields: Fields, name: string, instead: string): "gelu" | "gelu-tanh" {
  const activation = fields.textOr(instead, name);
  if (activation === "gelu") return "gelu";
  if (["gelu_new", "gelu_fast", "gelu_pytorch_tanh"].includes(activation)) return "gelu-tanh";
  throw fields.wrong(name, '"gelu", "gelu_new", "gelu_fast" or "gelu_pytorch_tanh"');
}

/** Frequencies and the longest context, from `rope_parameters` or, in older files, `rope_theta` and `rope_scaling`. */
function rotary(fields: Fields, headDim: number): { positions: Positions; maxPositions: number } {
  if (headDim % 2 !== 0) throw fields.wrong("head_dim", `an even number (${headDim} cannot be rotated in pairs)`);
  const rope = fields.object("rope_parameters") ?? fields.object("rope_scaling");
  if (rope) only(rope, "partial_rotary_factor", 1);
  for (const kind of ["full_attention", "sliding_attention"])
    if (rope?.has(kind)) throw rope.wrong(kind, "none: all layers have the same positions here");
  const theta = rope?.has("rope_theta") ? rope.positive("rope_theta") : fields.positiveOr(10_000, "rope_theta");
  const trained = fields.count("max_position_embeddings");
  const { scaling, temperature = 1, maxPositions = trained } = rope ? scalingOf(rope, trained) : {};
  const inverseFrequencies = scaledFrequencies(headDim, theta, scaling);
  return { positions: { kind: "rope", inverseFrequencies, factor: temperature }, maxPositions };
}

interface Scaled {
  readonly scaling?: RopeScaling;
  readonly temperature?: number;
  readonly maxPositions?: number;
}

function scalingOf(rope: Fields, trained: number): Scaled {
  const kind = rope.textOr("default", "rope_type", "type");
  switch (kind) {
    case "default":
      return {};
    case "dynamic":
      // It changes nothing within the trained length; beyond it, cached keys would have to be rotated again for every token.
      return { maxPositions: trained };
    case "linear": {
      const factor = rope.positive("factor");
      return { scaling: { kind, factor }, maxPositions: Math.floor(trained * Math.max(1, factor)) };
    }
    case "llama3": {
      const scaling: RopeScaling = {
        kind,
        factor: rope.positive("factor"),
        lowFrequencyFactor: rope.positive("low_freq_factor"),
        highFrequencyFactor: rope.positive("high_freq_factor"),
        originalPositions: rope.count("original_max_position_embeddings"),
      };
      if (scaling.highFrequencyFactor <= scaling.lowFrequencyFactor)
        throw rope.wrong("high_freq_factor", `more than low_freq_factor, which is ${scaling.lowFrequencyFactor}`);
      return { scaling };
    }
    case "yarn":
      return yarn(rope, trained);
    default:
      throw rope.wrong(
        rope.has("rope_type") ? "rope_type" : "type",
        'one of "default", "linear", "dynamic", "llama3", "yarn"',
      );
  }
}

function yarn(rope: Fields, trained: number): Scaled {
  const originalPositions = rope.countOr(trained, "original_max_position_embeddings");
  const factor = rope.positiveOr(trained / originalPositions, "factor");
  const [scale, scaleAll] = [rope.raw("mscale"), rope.raw("mscale_all_dim")];
  const temperature =
    scale && scaleAll
      ? yarnTemperature(factor, rope.positive("mscale")) / yarnTemperature(factor, rope.positive("mscale_all_dim"))
      : yarnTemperature(factor);
  return {
    scaling: {
      kind: "yarn",
      factor,
      originalPositions,
      betaFast: rope.positiveOr(32, "beta_fast"),
      betaSlow: rope.positiveOr(1, "beta_slow"),
      truncate: rope.flag("truncate", true),
    },
    temperature: rope.positiveOr(temperature, "attention_factor"),
    maxPositions: Math.max(trained, Math.floor(originalPositions * factor)),
  };
}

/** Qwen's window applies only with `use_sliding_window`, and then to the layers from `max_window_layers` on. */
function qwenWindow(fields: Fields): number | undefined {
  if (!fields.flag("use_sliding_window", false)) return undefined;
  const window = fields.isNull("sliding_window") ? undefined : fields.countOr(4096, "sliding_window");
  if (fields.has("layer_types")) return sameInAllLayers(fields, window);
  const from = fields.raw("max_window_layers") === 0 ? 0 : fields.countOr(28, "max_window_layers");
  if (from >= fields.count("num_hidden_layers")) return undefined;
  if (window !== undefined && from > 0)
    throw fields.wrong("max_window_layers", "0 (one window for all layers) or no fewer than num_hidden_layers");
  return window;
}

/** `layer_types` of newer files may state another attention per layer; here all layers must have the same. */
function sameInAllLayers(fields: Fields, window: number | undefined): number | undefined {
  const types = fields.raw("layer_types");
  if (types === undefined) return window;
  const all = (kind: string) => Array.isArray(types) && types.every((type) => type === kind);
  if (all("full_attention")) return undefined;
  if (all("sliding_attention")) return window;
  throw fields.wrong("layer_types", "full_attention for all layers, or sliding_attention for all");
}

/** Refuses any value of the field other than the supported one. */
function only(fields: Fields, name: string, value: boolean | number): void {
  const found = fields.raw(name);
  if (found !== undefined && found !== value) throw fields.wrong(name, `${value}`);
}

function check(fields: Fields, config: DecoderConfig): void {
  const { hidden, heads, kvHeads, headDim, architecture } = config;
  const fail = (message: string) => {
    throw new InputError(`${fields.path}: ${message}`);
  };
  if (heads % kvHeads !== 0) fail(`${heads} attention heads cannot share ${kvHeads} key-value heads evenly`);
  const hasOwnHeadDim = architecture !== "gpt2" && architecture !== "bloom" && fields.has("head_dim");
  if (!hasOwnHeadDim && architecture !== "qwen3" && headDim * heads !== hidden)
    fail(`hidden size ${hidden} cannot be divided among ${heads} attention heads`);
}
