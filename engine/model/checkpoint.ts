import { createHash } from "node:crypto";
import { assert, InputError } from "../../core/errors.ts";
import type { DecoderConfig, LayerTensor, ModelTensor, WeightSource } from "./decoder.ts";
import { readFloats, SafetensorsFolder, type StoredTensor } from "./safetensors.ts";
import { layerTensors, modelTensors } from "./tensors.ts";

/** Tensors of older files that are not weights and can be computed: frequencies, masks. */
const buffers = /\.(rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias)$/;

/** The stored tensor, or the part of one, that contains one of a decoder's tensors. */
interface StoredPart {
  readonly name: string;
  /** Shape of the whole stored tensor. */
  readonly shape: readonly number[];
  /** Stored as [outputs, inputs], as in torch's Linear; GPT-2's Conv1D stores [inputs, outputs], the layout used here. */
  readonly transposed?: boolean;
  /** Only these rows, each run [first, count] ... */
  readonly rows?: readonly (readonly [number, number])[];
  /** ... or only these columns. */
  readonly columns?: readonly [number, number];
}

/** Names of an architecture's stored tensors, without the prefix that most files add. */
interface Layout {
  readonly prefix: string;
  readonly embedding: string;
  /** Beginning of the names of layers' tensors, before the layer's number. */
  readonly layers: string;
  model(tensor: ModelTensor, config: DecoderConfig): StoredPart;
  layer(tensor: LayerTensor, config: DecoderConfig): StoredPart;
}

/**
 * The weights of a folder of safetensors files in the layouts of the transformers library. All tensors that the model
 * needs are looked up, with their shapes, before any of them is read.
 */
export class Checkpoint implements WeightSource {
  readonly fingerprint: string;
  readonly bytes: number;
  readonly #folder: SafetensorsFolder;
  readonly #config: DecoderConfig;
  readonly #layout: Layout;
  readonly #prefix: string;

  /** @throws InputError naming file, tensor, what was found and what was expected. */
  constructor(folder: string, config: DecoderConfig) {
    this.#config = config;
    this.#layout = layouts[config.architecture];
    this.#folder = new SafetensorsFolder(folder);
    this.bytes = this.#folder.bytes;
    // Files of a bare decoder, without a head, have no prefix.
    this.#prefix = this.#folder.has(this.#layout.embedding) ? "" : this.#layout.prefix;
    try {
      for (const { tensor } of modelTensors(config)) this.#modelPart(tensor);
      for (let layer = 0; layer < config.layers; layer++)
        for (const { tensor } of layerTensors(config)) this.#layerPart(layer, tensor);
      this.#checkLayers();
    } catch (error) {
      this.close();
      throw error;
    }
    const hash = createHash("sha256");
    for (const { path, bytes, modifiedMs } of this.#folder.files) hash.update(`${path}\n${bytes}\n${modifiedMs}\n`);
    this.fingerprint = hash.digest("hex");
  }

  model(tensor: ModelTensor): Float32Array {
    if (tensor === "head" && this.#config.tiedEmbeddings) {
      const { part, stored } = this.#modelPart("embedding");
      return read(stored, { ...part, transposed: true });
    }
    const { part, stored } = this.#modelPart(tensor);
    return read(stored, part);
  }

  layer(layer: number, tensor: LayerTensor): Float32Array {
    assert(layer >= 0 && layer < this.#config.layers, `layer ${layer} of ${this.#config.layers}`);
    const { part, stored } = this.#layerPart(layer, tensor);
    return read(stored, part);
  }

  close(): void {
    this.#folder.close();
  }

  /**
   * Refuses tensors of layers that would not be read: the model then differs from config.json, it has biases or more layers.
   */
  #checkLayers(): void {
    const config = this.#config;
    const layers = `${this.#prefix}${this.#layout.layers}`;
    const known = new Set(layerTensors(config).map(({ tensor }) => this.#layout.layer(tensor, config).name));
    for (const name of this.#folder.names()) {
      const [, layer, part] = (name.startsWith(layers) && /^(\d+)(\..+)$/.exec(name.slice(layers.length))) || [];
      if (layer === undefined || buffers.test(part)) continue;
      const isKnown = known.has(`${this.#layout.layers}#${part}`);
      if (Number(layer) < config.layers && isKnown) continue;
      const expected = isKnown ? `layers up to ${config.layers - 1}` : "none: config.json describes a model without it";
      throw new InputError(`${this.#folder.path}: unexpected tensor ${name}, expected ${expected}`);
    }
  }

  #modelPart(tensor: ModelTensor): { part: StoredPart; stored: StoredTensor } {
    const part = this.#layout.model(tensor, this.#config);
    const prefix = tensor === "head" ? "" : this.#prefix;
    return { part, stored: this.#folder.tensor(`${prefix}${part.name}`, part.shape) };
  }

  #layerPart(layer: number, tensor: LayerTensor): { part: StoredPart; stored: StoredTensor } {
    const part = this.#layout.layer(tensor, this.#config);
    const name = `${this.#prefix}${part.name.replace("#", String(layer))}`;
    return { part, stored: this.#folder.tensor(name, part.shape) };
  }
}

/** Rows that are read at once, so that a transposed write fills whole cache lines. */
const rowsAtOnce = 64;

/** @throws InputError if a value is NaN or infinite */
function read(stored: StoredTensor, part: StoredPart): Float32Array {
  const values = readPart(stored, part);
  for (let i = 0; i < values.length; i++)
    if (!Number.isFinite(values[i]))
      throw new InputError(`${stored.file.path}: tensor ${stored.name} contains ${values[i]}, expected finite numbers`);
  return values;
}

/** Reads a part of a stored tensor as [inputs, outputs]. Needs memory for 64 rows besides the result. */
function readPart(stored: StoredTensor, { shape, transposed, rows, columns }: StoredPart): Float32Array {
  const width = shape.length === 1 ? 1 : shape[1];
  const runs = rows ?? [[0, shape[0]]];
  const height = runs.reduce((sum, [, count]) => sum + count, 0);
  const [firstColumn, columnCount] = columns ?? [0, width];
  const result = new Float32Array(height * columnCount);
  if (!transposed && columnCount === width) {
    let done = 0;
    for (const [first, count] of runs) {
      readFloats(stored, first * width, result.subarray(done, done + count * width));
      done += count * width;
    }
    return result;
  }
  const chunk = new Float32Array(rowsAtOnce * width);
  let row = 0;
  for (const [first, count] of runs) {
    for (let from = 0; from < count; from += rowsAtOnce) {
      const chunkRows = Math.min(rowsAtOnce, count - from);
      readFloats(stored, (first + from) * width, chunk.subarray(0, chunkRows * width));
      if (transposed) {
        for (let x = 0; x < columnCount; x++)
          for (let y = 0; y < chunkRows; y++) result[x * height + row + y] = chunk[y * width + firstColumn + x];
      } else {
        for (let y = 0; y < chunkRows; y++)
          result.set(
            chunk.subarray(y * width + firstColumn, y * width + firstColumn + columnCount),
            (row + y) * columnCount,
          );
      }
      row += chunkRows;
    }
  }
  return result;
}

function linear(name: string, inputs: number, outputs: number): StoredPart {
  return { name, shape: [outputs, inputs], transposed: true };
}

const llamaLayout: Layout = {
  prefix: "model.",
  embedding: "embed_tokens.weight",
  layers: "layers.",
  model(tensor, { hidden, vocabulary }) {
    if (tensor === "embedding") return { name: "embed_tokens.weight", shape: [vocabulary, hidden] };
    if (tensor === "norm.weight") return { name: "norm.weight", shape: [hidden] };
    assert(tensor === "head", `no ${tensor} in this architecture`);
    return linear("lm_head.weight", hidden, vocabulary);
  },
  layer(tensor, { hidden, heads, kvHeads, headDim, ffn }) {
    const [queries, keys] = [heads * headDim, kvHeads * headDim];
    const parts: Partial<Record<LayerTensor, StoredPart>> = {
      "attentionNorm.weight": { name: "input_layernorm.weight", shape: [hidden] },
      query: linear("self_attn.q_proj.weight", hidden, queries),
      key: linear("self_attn.k_proj.weight", hidden, keys),
      value: linear("self_attn.v_proj.weight", hidden, keys),
      "query.bias": { name: "self_attn.q_proj.bias", shape: [queries] },
      "key.bias": { name: "self_attn.k_proj.bias", shape: [keys] },
      "value.bias": { name: "self_attn.v_proj.bias", shape: [keys] },
      queryNorm: { name: "self_attn.q_norm.weight", shape: [headDim] },
      keyNorm: { name: "self_attn.k_norm.weight", shape: [headDim] },
      output: linear("self_attn.o_proj.weight", queries, hidden),
      "output.bias": { name: "self_attn.o_proj.bias", shape: [hidden] },
      "ffnNorm.weight": { name: "post_attention_layernorm.weight", shape: [hidden] },
      gate: linear("mlp.gate_proj.weight", hidden, ffn),
      up: linear("mlp.up_proj.weight", hidden, ffn),
      down: linear("mlp.down_proj.weight", ffn, hidden),
    };
    return inLayer("layers.#.", tensor, parts);
  },
};

const gpt2Layout: Layout = {
  prefix: "transformer.",
  embedding: "wte.weight",
  layers: "h.",
  model(tensor, { hidden, vocabulary, maxPositions }) {
    if (tensor === "embedding") return { name: "wte.weight", shape: [vocabulary, hidden] };
    if (tensor === "positions") return { name: "wpe.weight", shape: [maxPositions, hidden] };
    if (tensor === "norm.weight") return { name: "ln_f.weight", shape: [hidden] };
    if (tensor === "norm.bias") return { name: "ln_f.bias", shape: [hidden] };
    assert(tensor === "head", `no ${tensor} in this architecture`);
    return linear("lm_head.weight", hidden, vocabulary);
  },
  layer(tensor, { hidden, ffn }) {
    // [hidden, query | key | value]
    const fused = { name: "attn.c_attn.weight", shape: [hidden, 3 * hidden] };
    const fusedBias = { name: "attn.c_attn.bias", shape: [3 * hidden] };
    const parts: Partial<Record<LayerTensor, StoredPart>> = {
      "attentionNorm.weight": { name: "ln_1.weight", shape: [hidden] },
      "attentionNorm.bias": { name: "ln_1.bias", shape: [hidden] },
      query: { ...fused, columns: [0, hidden] },
      key: { ...fused, columns: [hidden, hidden] },
      value: { ...fused, columns: [2 * hidden, hidden] },
      "query.bias": { ...fusedBias, rows: [[0, hidden]] },
      "key.bias": { ...fusedBias, rows: [[hidden, hidden]] },
      "value.bias": { ...fusedBias, rows: [[2 * hidden, hidden]] },
      output: { name: "attn.c_proj.weight", shape: [hidden, hidden] },
      "output.bias": { name: "attn.c_proj.bias", shape: [hidden] },
      "ffnNorm.weight": { name: "ln_2.weight", shape: [hidden] },
      "ffnNorm.bias": { name: "ln_2.bias", shape: [hidden] },
      up: { name: "mlp.c_fc.weight", shape: [hidden, ffn] },
      "up.bias": { name: "mlp.c_fc.bias", shape: [ffn] },
      down: { name: "mlp.c_proj.weight", shape: [ffn, hidden] },
      "down.bias": { name: "mlp.c_proj.bias", shape: [hidden] },
    };
    return inLayer("h.#.", tensor, parts);
  },
};

const bloomLayout: Layout = {
  prefix: "transformer.",
  embedding: "word_embeddings.weight",
  layers: "h.",
  model(tensor, { hidden, vocabulary }) {
    if (tensor === "embedding") return { name: "word_embeddings.weight", shape: [vocabulary, hidden] };
    if (tensor === "embeddingNorm.weight") return { name: "word_embeddings_layernorm.weight", shape: [hidden] };
    if (tensor === "embeddingNorm.bias") return { name: "word_embeddings_layernorm.bias", shape: [hidden] };
    if (tensor === "norm.weight") return { name: "ln_f.weight", shape: [hidden] };
    if (tensor === "norm.bias") return { name: "ln_f.bias", shape: [hidden] };
    assert(tensor === "head", `no ${tensor} in this architecture`);
    return linear("lm_head.weight", hidden, vocabulary);
  },
  layer(tensor, { hidden, heads, headDim, ffn }) {
    // Rows are query, key and value of the first head, then those of the second, and so on.
    const fused = linear("self_attention.query_key_value.weight", hidden, 3 * hidden);
    const fusedBias = { name: "self_attention.query_key_value.bias", shape: [3 * hidden] };
    const rowsOf = (part: number) =>
      Array.from({ length: heads }, (_, head) => [(3 * head + part) * headDim, headDim] as const);
    const parts: Partial<Record<LayerTensor, StoredPart>> = {
      "attentionNorm.weight": { name: "input_layernorm.weight", shape: [hidden] },
      "attentionNorm.bias": { name: "input_layernorm.bias", shape: [hidden] },
      query: { ...fused, rows: rowsOf(0) },
      key: { ...fused, rows: rowsOf(1) },
      value: { ...fused, rows: rowsOf(2) },
      "query.bias": { ...fusedBias, rows: rowsOf(0) },
      "key.bias": { ...fusedBias, rows: rowsOf(1) },
      "value.bias": { ...fusedBias, rows: rowsOf(2) },
      output: linear("self_attention.dense.weight", hidden, hidden),
      "output.bias": { name: "self_attention.dense.bias", shape: [hidden] },
      "ffnNorm.weight": { name: "post_attention_layernorm.weight", shape: [hidden] },
      "ffnNorm.bias": { name: "post_attention_layernorm.bias", shape: [hidden] },
      up: linear("mlp.dense_h_to_4h.weight", hidden, ffn),
      "up.bias": { name: "mlp.dense_h_to_4h.bias", shape: [ffn] },
      down: linear("mlp.dense_4h_to_h.weight", ffn, hidden),
      "down.bias": { name: "mlp.dense_4h_to_h.bias", shape: [hidden] },
    };
    return inLayer("h.#.", tensor, parts);
  },
};

const layouts: Readonly<Record<DecoderConfig["architecture"], Layout>> = {
  llama: llamaLayout,
  qwen2: llamaLayout,
  qwen3: llamaLayout,
  mistral: llamaLayout,
  gpt2: gpt2Layout,
  bloom: bloomLayout,
};

function inLayer(prefix: string, tensor: LayerTensor, parts: Partial<Record<LayerTensor, StoredPart>>): StoredPart {
  const part = parts[tensor];
  assert(part !== undefined, `no ${tensor} in this architecture`);
  return { ...part, name: `${prefix}${part.name}` };
}
