import { InputError } from "../../core/errors.ts";
import type { ComputeType, ExpertShape, ModelShape } from "./model-shape.ts";
import { quantisation } from "./quantisation.ts";

/** A Hugging Face `config.json`, parsed. */
export type ModelConfig = Readonly<Record<string, unknown>>;

/** Fields of any architecture that change neither sizes nor computation. */
const harmless = new Set([
  ...["_name_or_path", "architectures", "auto_map", "transformers_version", "model_type", "use_cache", "unsloth_fixed"],
  ...["bos_token_id", "eos_token_id", "pad_token_id", "attention_dropout", "initializer_range", "pretraining_tp"],
  ...["max_position_embeddings", "rope_scaling", "rope_theta", "rope_parameters", "rope_interleave", "rms_norm_eps"],
  ...["hidden_act", "output_router_logits", "router_aux_loss_coef", "max_sequence_length", "is_decoder"],
  ...["_attn_implementation_autoset", "use_mrope", "sep_token_id"],
]);

/** Fields that are read for every architecture. */
const common = [
  ...["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size"],
  ...["intermediate_size", "tie_word_embeddings", "torch_dtype", "dtype", "quantization_config", "head_dim"],
];

interface Architecture {
  /** Fields of this architecture that are read. */
  readonly reads?: readonly string[];
  /** Fields of this architecture that change neither sizes nor computation. */
  readonly ignores?: readonly string[];
  /** The query, key and value projections have biases. */
  readonly qkvBias?: boolean;
  /** Queries and keys are normalised, with weights that all heads share. */
  readonly headNorm?: boolean;
  /** Mixture of experts; undefined if all layers are dense. `extra`: further parameters of a router. */
  experts?(fields: Fields, layers: number): { experts: ExpertShape; denseLayers: number; extra: number } | undefined;
  window?(fields: Fields, layers: number): ModelShape["window"];
  readonly latent?: true;
  /** Each head has an attention sink, one parameter. */
  readonly sinks?: true;
  /** Experts have biases. */
  readonly expertBias?: true;
}

const architectures: Readonly<Record<string, Architecture>> = {
  llama: { reads: ["attention_bias", "mlp_bias"] },
  mistral: {
    reads: ["sliding_window"],
    window: (fields, layers) => windowIn(fields.optional("sliding_window"), layers),
  },
  mixtral: {
    reads: ["sliding_window", "num_local_experts", "num_experts_per_tok"],
    ignores: ["router_jitter_noise"],
    window: (fields, layers) => windowIn(fields.optional("sliding_window"), layers),
    experts: (fields) => ({
      experts: {
        count: fields.count("num_local_experts"),
        active: fields.count("num_experts_per_tok"),
        shared: 0,
        ffn: fields.count("intermediate_size"),
      },
      denseLayers: 0,
      extra: 0,
    }),
  },
  qwen2: {
    reads: ["use_sliding_window", "sliding_window", "max_window_layers", "layer_types"],
    qkvBias: true,
    window: qwenWindow,
  },
  qwen3: {
    reads: ["use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "attention_bias"],
    headNorm: true,
    window: qwenWindow,
  },
  qwen3_moe: {
    reads: [
      ...["use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "attention_bias"],
      ...["num_experts", "num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step", "mlp_only_layers"],
    ],
    ignores: ["norm_topk_prob"],
    headNorm: true,
    window: qwenWindow,
    experts: (fields) => {
      fields.mustBe("decoder_sparse_step", 1);
      fields.mustBeEmpty("mlp_only_layers");
      const count = fields.count("num_experts");
      const active = fields.count("num_experts_per_tok");
      return {
        experts: { count, active, shared: 0, ffn: fields.count("moe_intermediate_size") },
        denseLayers: 0,
        extra: 0,
      };
    },
  },
  deepseek_v2: deepseek(0),
  deepseek_v3: deepseek(1),
  gpt_oss: {
    reads: [
      ...["sliding_window", "layer_types", "num_local_experts", "num_experts_per_tok", "experts_per_token"],
      "attention_bias",
    ],
    ignores: ["initial_context_length", "swiglu_limit"],
    sinks: true,
    expertBias: true,
    window: (fields, layers) => windowIn(fields.optional("sliding_window"), windowLayers(fields, layers) ?? layers / 2),
    experts: (fields) => ({
      experts: {
        count: fields.count("num_local_experts"),
        active: fields.count("num_experts_per_tok"),
        shared: 0,
        ffn: fields.count("intermediate_size"),
      },
      denseLayers: 0,
      extra: fields.count("num_local_experts"),
    }),
  },
};

/** DeepSeek: multi-head latent attention, see `latentAttention`. */
function deepseek(biasOfRouter: number): Architecture {
  return {
    latent: true,
    reads: [
      ...["q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "attention_bias"],
      ...["n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size"],
      ...["first_k_dense_replace", "moe_layer_freq"],
    ],
    ignores: [
      ...["aux_loss_alpha", "ep_size", "n_group", "topk_group", "topk_method", "scoring_func", "seq_aux"],
      ...["norm_topk_prob", "routed_scaling_factor", "num_nextn_predict_layers"],
    ],
    experts: (fields) => {
      if (fields.optional("n_routed_experts") === undefined) return undefined;
      fields.mustBe("moe_layer_freq", 1);
      const count = fields.count("n_routed_experts");
      return {
        experts: {
          count,
          active: fields.count("num_experts_per_tok"),
          shared: fields.count("n_shared_experts", 0),
          ffn: fields.count("moe_intermediate_size"),
        },
        denseLayers: fields.count("first_k_dense_replace", 0),
        extra: biasOfRouter * count,
      };
    },
  };
}

/** Supported architectures: values of `model_type`. */
export const modelTypes: readonly string[] = Object.keys(architectures);

/**
 * Reads a model's `config.json`.
 * @throws InputError that begins with `where`: a field is missing or wrong, or the architecture or a field is
 * unknown; an unknown field could change how much the model computes or stores.
 */
export function shapeOf(name: string, config: unknown, where: string): ModelShape {
  if (typeof config !== "object" || config === null || Array.isArray(config))
    throw new InputError(`${where}: expected a JSON object, as in a model's config.json`);
  const fields = new Fields(config as ModelConfig, where);
  const type = fields.optional("model_type");
  const architecture = typeof type === "string" && Object.hasOwn(architectures, type) ? architectures[type] : undefined;
  if (!architecture)
    throw new InputError(`${where}: model_type is ${JSON.stringify(type)}, expected one of ${modelTypes.join(", ")}`);
  const { reads = [], ignores = [] } = architecture;
  const unknown = Object.keys(config).find(
    (field) => !common.includes(field) && !harmless.has(field) && !reads.includes(field) && !ignores.includes(field),
  );
  if (unknown !== undefined)
    throw new InputError(
      `${where}: unknown field "${unknown}" of a ${type} model; if it changes neither sizes nor computation, remove it from the file`,
    );

  const layers = fields.count("num_hidden_layers");
  const hidden = fields.count("hidden_size");
  const vocabulary = fields.count("vocab_size");
  const ffn = fields.count("intermediate_size");
  const tiedEmbeddings = fields.flag("tie_word_embeddings", false);
  const attention = architecture.latent ? latentAttention(fields, hidden) : headAttention(fields, hidden, architecture);
  const mixture = architecture.experts?.(fields, layers);
  const experts = mixture?.experts;
  const denseLayers = Math.min(layers, experts ? (mixture?.denseLayers ?? 0) : layers);
  if (experts && experts.active > experts.count)
    throw new InputError(`${where}: ${experts.active} experts per token, but only ${experts.count} experts`);

  const mlpBias = fields.flag("mlp_bias", false) ? 2 * ffn + hidden : 0;
  const dense = 3 * hidden * ffn + mlpBias;
  const expert = experts ? 3 * hidden * experts.ffn + (architecture.expertBias ? 2 * experts.ffn + hidden : 0) : 0;
  const router = experts ? hidden * experts.count + (mixture?.extra ?? 0) : 0;
  const sparse = layers - denseLayers;
  const sharedExperts = sparse * (experts?.shared ?? 0) * expert;
  const inLayers =
    layers * (attention.parameters + 2 * hidden) + denseLayers * dense + sparse * router + sharedExperts + hidden;
  const embedding = vocabulary * hidden;
  const ends = tiedEmbeddings ? embedding : 2 * embedding;
  const number = numberType(fields);
  const quantised = quantisation(fields.optional("quantization_config"), number.bytes, where);
  const { parameters: _, ...heads } = attention;
  return {
    name,
    layers,
    hidden,
    vocabulary,
    ...heads,
    denseLayers,
    ffn,
    experts,
    window: architecture.window?.(fields, layers),
    tiedEmbeddings,
    parameters: {
      total: ends + inLayers + sparse * (experts?.count ?? 0) * expert,
      active: ends + inLayers + sparse * (experts?.active ?? 0) * expert,
      embedding,
      head: embedding,
      layers: inLayers,
      expert,
    },
    numberBytes: number.bytes,
    weightBytes: quantised.weightBytes,
    expertWeightBytes: quantised.expertWeightBytes,
    compute: quantised.compute ?? number.compute,
  };
}

type Attention = Pick<ModelShape, "heads" | "kvHeads" | "keyDim" | "valueDim" | "kvNumbers" | "latentDim"> & {
  /** Of one layer. */
  parameters: number;
};

/** Multi-head attention, in which several query heads may share a KV head (GQA, arXiv 2305.13245). */
function headAttention(fields: Fields, hidden: number, architecture: Architecture): Attention {
  const heads = fields.count("num_attention_heads");
  const kvHeads = fields.count("num_key_value_heads", heads);
  const dim = fields.count("head_dim", hidden / heads);
  if (heads % kvHeads !== 0)
    throw new InputError(`${fields.where}: ${heads} query heads cannot share ${kvHeads} KV heads`);
  const queries = heads * dim;
  const keys = kvHeads * dim;
  const allBias = fields.flag("attention_bias", false);
  let parameters = hidden * (queries + 2 * keys) + queries * hidden;
  if (architecture.qkvBias || allBias) parameters += queries + 2 * keys;
  if (allBias) parameters += hidden;
  if (architecture.headNorm) parameters += 2 * dim;
  if (architecture.sinks) parameters += heads;
  return { heads, kvHeads, keyDim: dim, valueDim: dim, kvNumbers: 2 * keys, parameters };
}

/** Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): `kv_lora_rank + qk_rope_head_dim` numbers per token. */
function latentAttention(fields: Fields, hidden: number): Attention {
  const heads = fields.count("num_attention_heads");
  const latent = fields.count("kv_lora_rank");
  const rope = fields.count("qk_rope_head_dim");
  const plain = fields.count("qk_nope_head_dim");
  const valueDim = fields.count("v_head_dim");
  const keyDim = plain + rope;
  const queryRank = fields.optional("q_lora_rank") == null ? undefined : fields.count("q_lora_rank");
  const queries = queryRank ? hidden * queryRank + queryRank + queryRank * heads * keyDim : hidden * heads * keyDim;
  const stored = hidden * (latent + rope) + latent;
  const parameters = queries + stored + latent * heads * (plain + valueDim) + heads * valueDim * hidden;
  return { heads, kvHeads: 1, keyDim, valueDim, kvNumbers: latent + rope, latentDim: latent, parameters };
}

function windowIn(tokens: unknown, layers: number): ModelShape["window"] {
  return typeof tokens === "number" && tokens > 0 && layers > 0 ? { tokens, layers } : undefined;
}

/** Number of sliding-window layers by `layer_types`; undefined if the field is absent. */
function windowLayers(fields: Fields, layers: number): number | undefined {
  const types = fields.optional("layer_types");
  if (types === undefined || types === null) return undefined;
  const known = ["full_attention", "sliding_attention"];
  if (!Array.isArray(types) || types.length !== layers || types.some((type) => !known.includes(type)))
    throw new InputError(`${fields.where}: layer_types must list ${known.join(" or ")} for each of ${layers} layers`);
  return types.filter((type) => type === "sliding_attention").length;
}

/** Qwen: a window only with `use_sliding_window`, in the layers from `max_window_layers` on. */
function qwenWindow(fields: Fields, layers: number): ModelShape["window"] {
  if (!fields.flag("use_sliding_window", false)) return undefined;
  const from = windowLayers(fields, layers) ?? layers - fields.count("max_window_layers", layers);
  return windowIn(fields.optional("sliding_window"), from);
}

function numberType(fields: Fields): { bytes: number; compute: ComputeType } {
  const type = fields.optional("torch_dtype") ?? fields.optional("dtype") ?? "bfloat16";
  if (type === "bfloat16" || type === "float16") return { bytes: 2, compute: "bf16" };
  if (type === "float32") return { bytes: 4, compute: "fp32" };
  throw new InputError(
    `${fields.where}: torch_dtype is ${JSON.stringify(type)}, expected bfloat16, float16 or float32`,
  );
}

/** Access to fields by name, with checks. */
class Fields {
  readonly #config: ModelConfig;
  readonly where: string;

  constructor(config: ModelConfig, where: string) {
    this.#config = config;
    this.where = where;
  }

  optional(name: string): unknown {
    return Object.hasOwn(this.#config, name) ? this.#config[name] : undefined;
  }

  /** A whole number from 1, or from 0 if the default is 0. */
  count(name: string, otherwise?: number): number {
    const value = this.optional(name) ?? otherwise;
    const least = otherwise === 0 ? 0 : 1;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
    const found = value === undefined ? "missing" : JSON.stringify(value);
    throw new InputError(`${this.where}: ${name} is ${found}, expected a whole number from ${least}`);
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.optional(name) ?? otherwise;
    if (typeof value === "boolean") return value;
    throw new InputError(`${this.where}: ${name} is ${JSON.stringify(value)}, expected true or false`);
  }

  /** For fields of which only one value is supported. */
  mustBe(name: string, expected: number): void {
    const value = this.optional(name) ?? expected;
    if (value !== expected)
      throw new InputError(`${this.where}: ${name} is ${JSON.stringify(value)}, and only ${expected} is supported`);
  }

  mustBeEmpty(name: string): void {
    const value = this.optional(name) ?? [];
    if (!Array.isArray(value) || value.length > 0)
      throw new InputError(`${this.where}: ${name} is ${JSON.stringify(value)}, and only [] is supported`);
  }
}
