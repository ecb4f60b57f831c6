import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { DecoderConfig, LayerTensor, WeightSource } from "../../engine/model/decoder.ts";
import { layerTensors } from "../../engine/model/tensors.ts";

export type FloatName = "F32" | "F16" | "BF16";

/** A tensor in a safetensors file. */
export interface RawTensor {
  dtype: string;
  shape: readonly number[];
  bytes: Uint8Array;
}

/** The bytes of a safetensors file; `change` may modify its header, to make it invalid. */
export function safetensorsOf(
  tensors: Readonly<Record<string, RawTensor>>,
  change: (header: Record<string, unknown>) => unknown = (header) => header,
): Uint8Array {
  let end = 0;
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, (end += bytes.length)] };
  }
  const json = new TextEncoder().encode(JSON.stringify(change(header)));
  const file = new Uint8Array(8 + json.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  let at = 8 + json.length;
  for (const { bytes } of Object.values(tensors)) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

/** The nearest number that the format can represent, and its bits, computed from the format's definition. */
export function rounded(value: number, format: FloatName): { value: number; bits: number } {
  if (format === "F32") return { value: Math.fround(value), bits: 0 };
  const [fractionBits, least, bias] = format === "F16" ? [10, -14, 15] : [7, -126, 127];
  const sign = value < 0 || Object.is(value, -0) ? 1 : 0;
  const size = Math.abs(value);
  const exponent = size === 0 ? least : Math.max(least, Math.floor(Math.log2(size)));
  const step = 2 ** (exponent - fractionBits);
  const steps = Math.round(size / step);
  // If the fraction overflows, the sum carries into the exponent.
  const bits = (sign << 15) | (((exponent + bias - 1) << fractionBits) + steps);
  return { value: (sign ? -1 : 1) * steps * step, bits };
}

export function rawTensor(shape: readonly number[], values: ArrayLike<number>, format: FloatName = "F32"): RawTensor {
  if (format === "F32")
    return { dtype: format, shape, bytes: new Uint8Array(Float32Array.from(values).buffer as ArrayBuffer) };
  const bits = Uint16Array.from(values, (value) => rounded(value, format).bits);
  return { dtype: format, shape, bytes: new Uint8Array(bits.buffer as ArrayBuffer) };
}

const root = mkdtempSync(join(tmpdir(), "kvlab-models-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

/** A new folder with these files: strings and bytes are written as they are, other values as JSON. */
export function folderOf(files: Readonly<Record<string, unknown>>): string {
  const folder = join(root, `m${folders++}`);
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) {
    const isRaw = typeof content === "string" || content instanceof Uint8Array;
    writeFileSync(join(folder, name), isRaw ? content : JSON.stringify(content));
  }
  return folder;
}

export interface CheckpointOptions {
  readonly format?: FloatName;
  /** Number of files that the tensors are distributed over; with 1 there is no index file. */
  readonly shards?: number;
  /** Fields that replace or extend those of config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Additional files. */
  readonly files?: Readonly<Record<string, unknown>>;
  /** Removes, adds or modifies tensors. */
  readonly change?: (tensors: Record<string, RawTensor>) => void;
}

/** A model folder in the Hugging Face layout with these weights. */
export function checkpointOf(config: DecoderConfig, weights: WeightSource, options: CheckpointOptions = {}): string {
  const tensors: Record<string, RawTensor> = {};
  for (const [name, { shape, at }] of Object.entries(storedTensors(config, weights))) {
    const count = shape.reduce((product, length) => product * length, 1);
    tensors[name] = rawTensor(
      shape,
      Float32Array.from({ length: count }, (_, i) => at(i)),
      options.format,
    );
  }
  options.change?.(tensors);
  return folderOf({
    "config.json": { ...configJson(config), ...options.config },
    ...shardFiles(tensors, options.shards ?? 1),
    ...options.files,
  });
}

export function shardFiles(tensors: Readonly<Record<string, RawTensor>>, shards: number): Record<string, unknown> {
  if (shards === 1) return { "model.safetensors": safetensorsOf(tensors) };
  const names = Object.keys(tensors);
  const files: Record<string, unknown> = {};
  const map: Record<string, string> = {};
  for (let shard = 0; shard < shards; shard++) {
    const file = `model-${String(shard + 1).padStart(5, "0")}-of-${String(shards).padStart(5, "0")}.safetensors`;
    const own = names.filter((_, i) => i % shards === shard);
    files[file] = safetensorsOf(Object.fromEntries(own.map((name) => [name, tensors[name]])));
    for (const name of own) map[name] = file;
  }
  return { ...files, "model.safetensors.index.json": { metadata: { total_size: 0 }, weight_map: map } };
}

/** config.json of the model, as the transformers library writes it. */
export function configJson(config: DecoderConfig): Record<string, unknown> {
  const { architecture, layers, hidden, heads, kvHeads, headDim, ffn, vocabulary, maxPositions, norm } = config;
  const common = { model_type: architecture, vocab_size: vocabulary, eos_token_id: config.endTokens };
  if (architecture === "gpt2")
    return {
      ...common,
      ...{ n_layer: layers, n_embd: hidden, n_head: heads, n_inner: ffn, n_positions: maxPositions },
      ...{ layer_norm_epsilon: norm.epsilon, activation_function: "gelu_new" },
    };
  if (architecture === "bloom")
    return {
      ...common,
      ...{ n_layer: layers, hidden_size: hidden, n_head: heads, seq_length: maxPositions },
      layer_norm_epsilon: norm.epsilon,
    };
  return {
    ...common,
    ...{ num_hidden_layers: layers, hidden_size: hidden, num_attention_heads: heads, num_key_value_heads: kvHeads },
    ...{ head_dim: headDim, intermediate_size: ffn, max_position_embeddings: maxPositions, hidden_act: "silu" },
    ...{ rms_norm_eps: norm.epsilon, rope_theta: 10_000, tie_word_embeddings: config.tiedEmbeddings },
    ...(architecture === "mistral" && { sliding_window: config.window ?? null }),
  };
}

interface Stored {
  shape: number[];
  /** Element i of the stored tensor, in row-major order. */
  at(i: number): number;
}

/** The stored tensors, element by element: the inverse of the conversion in engine/model. */
function storedTensors(config: DecoderConfig, weights: WeightSource): Record<string, Stored> {
  if (config.architecture === "gpt2") return gpt2Tensors(config, weights);
  if (config.architecture === "bloom") return bloomTensors(config, weights);
  const stored: Record<string, Stored> = {
    "model.embed_tokens.weight": as([config.vocabulary, config.hidden], weights.model("embedding")),
    "model.norm.weight": as([config.hidden], weights.model("norm.weight")),
  };
  if (!config.tiedEmbeddings)
    stored["lm_head.weight"] = transposed([config.vocabulary, config.hidden], weights.model("head"));
  const names: Partial<Record<LayerTensor, string>> = {
    "attentionNorm.weight": "input_layernorm.weight",
    query: "self_attn.q_proj.weight",
    key: "self_attn.k_proj.weight",
    value: "self_attn.v_proj.weight",
    "query.bias": "self_attn.q_proj.bias",
    "key.bias": "self_attn.k_proj.bias",
    "value.bias": "self_attn.v_proj.bias",
    queryNorm: "self_attn.q_norm.weight",
    keyNorm: "self_attn.k_norm.weight",
    output: "self_attn.o_proj.weight",
    "output.bias": "self_attn.o_proj.bias",
    "ffnNorm.weight": "post_attention_layernorm.weight",
    gate: "mlp.gate_proj.weight",
    up: "mlp.up_proj.weight",
    down: "mlp.down_proj.weight",
  };
  for (let layer = 0; layer < config.layers; layer++) {
    for (const { tensor, shape } of layerTensors(config)) {
      const values = weights.layer(layer, tensor);
      stored[`model.layers.${layer}.${names[tensor]}`] =
        shape.length === 1 ? as(shape, values) : transposed([shape[1], shape[0]], values);
    }
  }
  return stored;
}

function gpt2Tensors({ hidden, ffn, layers, vocabulary, maxPositions }: DecoderConfig, weights: WeightSource) {
  const stored: Record<string, Stored> = {
    "wte.weight": as([vocabulary, hidden], weights.model("embedding")),
    "wpe.weight": as([maxPositions, hidden], weights.model("positions")),
    "ln_f.weight": as([hidden], weights.model("norm.weight")),
    "ln_f.bias": as([hidden], weights.model("norm.bias")),
  };
  for (let layer = 0; layer < layers; layer++) {
    const of = (tensor: LayerTensor) => weights.layer(layer, tensor);
    const parts = [of("query"), of("key"), of("value")];
    const biases = [of("query.bias"), of("key.bias"), of("value.bias")];
    Object.assign(
      stored,
      prefixed(`h.${layer}.`, {
        "ln_1.weight": as([hidden], of("attentionNorm.weight")),
        "ln_1.bias": as([hidden], of("attentionNorm.bias")),
        "attn.bias": { shape: [1, 1, 1, 1], at: () => 1 },
        "attn.c_attn.weight": {
          shape: [hidden, 3 * hidden],
          at(i) {
            const [row, column] = [Math.floor(i / (3 * hidden)), i % (3 * hidden)];
            return parts[Math.floor(column / hidden)][row * hidden + (column % hidden)];
          },
        },
        "attn.c_attn.bias": { shape: [3 * hidden], at: (i) => biases[Math.floor(i / hidden)][i % hidden] },
        "attn.c_proj.weight": as([hidden, hidden], of("output")),
        "attn.c_proj.bias": as([hidden], of("output.bias")),
        "ln_2.weight": as([hidden], of("ffnNorm.weight")),
        "ln_2.bias": as([hidden], of("ffnNorm.bias")),
        "mlp.c_fc.weight": as([hidden, ffn], of("up")),
        "mlp.c_fc.bias": as([ffn], of("up.bias")),
        "mlp.c_proj.weight": as([ffn, hidden], of("down")),
        "mlp.c_proj.bias": as([hidden], of("down.bias")),
      }),
    );
  }
  return stored;
}

function bloomTensors({ hidden, heads, headDim, ffn, layers, vocabulary }: DecoderConfig, weights: WeightSource) {
  const stored: Record<string, Stored> = {
    "transformer.word_embeddings.weight": as([vocabulary, hidden], weights.model("embedding")),
    "transformer.word_embeddings_layernorm.weight": as([hidden], weights.model("embeddingNorm.weight")),
    "transformer.word_embeddings_layernorm.bias": as([hidden], weights.model("embeddingNorm.bias")),
    "transformer.ln_f.weight": as([hidden], weights.model("norm.weight")),
    "transformer.ln_f.bias": as([hidden], weights.model("norm.bias")),
  };
  for (let layer = 0; layer < layers; layer++) {
    const of = (tensor: LayerTensor) => weights.layer(layer, tensor);
    const parts = [of("query"), of("key"), of("value")];
    const biases = [of("query.bias"), of("key.bias"), of("value.bias")];
    /** torch: fused.view(heads, 3, headDim) */
    const split = (row: number) => {
      const head = Math.floor(row / (3 * headDim));
      const part = Math.floor((row % (3 * headDim)) / headDim);
      return { part, output: head * headDim + (row % headDim) };
    };
    Object.assign(
      stored,
      prefixed(`transformer.h.${layer}.`, {
        "input_layernorm.weight": as([hidden], of("attentionNorm.weight")),
        "input_layernorm.bias": as([hidden], of("attentionNorm.bias")),
        "self_attention.query_key_value.weight": {
          shape: [3 * heads * headDim, hidden],
          at(i) {
            const { part, output } = split(Math.floor(i / hidden));
            return parts[part][(i % hidden) * hidden + output];
          },
        },
        "self_attention.query_key_value.bias": {
          shape: [3 * hidden],
          at: (i) => biases[split(i).part][split(i).output],
        },
        "self_attention.dense.weight": transposed([hidden, hidden], of("output")),
        "self_attention.dense.bias": as([hidden], of("output.bias")),
        "post_attention_layernorm.weight": as([hidden], of("ffnNorm.weight")),
        "post_attention_layernorm.bias": as([hidden], of("ffnNorm.bias")),
        "mlp.dense_h_to_4h.weight": transposed([ffn, hidden], of("up")),
        "mlp.dense_h_to_4h.bias": as([ffn], of("up.bias")),
        "mlp.dense_4h_to_h.weight": transposed([hidden, ffn], of("down")),
        "mlp.dense_4h_to_h.bias": as([hidden], of("down.bias")),
      }),
    );
  }
  return stored;
}

function as(shape: readonly number[], values: Float32Array): Stored {
  return { shape: [...shape], at: (i) => values[i] };
}

/** The transpose: an [inputs, outputs] matrix is stored as [outputs, inputs]. */
function transposed([outputs, inputs]: [number, number], values: Float32Array): Stored {
  return { shape: [outputs, inputs], at: (i) => values[(i % inputs) * outputs + Math.floor(i / inputs)] };
}

function prefixed(prefix: string, stored: Record<string, Stored>): Record<string, Stored> {
  return Object.fromEntries(Object.entries(stored).map(([name, value]) => [prefix + name, value]));
}
