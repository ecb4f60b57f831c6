import type { DecoderConfig, LayerTensor, ModelTensor } from "../model/decoder.ts";
import { alibiSlopes } from "../onnx/decoder.ts";
import type { BlockPool } from "./block-pool.ts";
import type { Activations } from "./buffers.ts";
import type { DeviceMemory } from "./device.ts";
import type { Launches } from "./launches.ts";
import type { StepAddresses, StepSize } from "./step-inputs.ts";
import type { DeviceLayerTensor, WeightLayout } from "./weights.ts";

/** Products of matrices: cuBLAS or our own kernel. */
type Products = Pick<Launches, "multiply">;

/** Addresses of a layer's weights; 0: the model does not have the tensor. */
type LayerWeights = Readonly<Record<`${"attention" | "ffn"}Norm`, { readonly weight: bigint; readonly bias: bigint }>> &
  Readonly<Record<"qkv" | "output" | "outputBias" | "up" | "upBias" | "down" | "downBias", bigint>> & {
    readonly store: { readonly bias: bigint; readonly queryNorm: bigint; readonly keyNorm: bigint };
  };

/**
 * The forward pass of a decoder, as launches on the device's stream.
 *
 *   x ─ norm ─▶ qkv ─ store in slots ─▶ attention ─▶ output ─┐
 *   x ◀────────────────────── added by the next norm ────────┘
 *   x ─ norm ─▶ up (and gate) ─ activation ─▶ down ─▶ added by the next layer's norm
 *
 * Keys and values of all rows are stored before a layer's attention, so that a sequence may read blocks that another sequence of
 * the same step writes.
 */
export class Forward {
  readonly #config: DecoderConfig;
  readonly #launches: Launches;
  readonly #pool: BlockPool;
  readonly #products: Products;
  readonly #weights: DeviceMemory;
  readonly #layout: WeightLayout;
  readonly #layers: readonly LayerWeights[];
  /** The constants of positions. */
  readonly #constants: bigint;

  constructor(
    config: DecoderConfig,
    launches: Launches,
    pool: BlockPool,
    products: Products,
    weights: DeviceMemory,
    layout: WeightLayout,
    constants: DeviceMemory,
  ) {
    this.#config = config;
    this.#launches = launches;
    this.#pool = pool;
    this.#products = products;
    this.#weights = weights;
    this.#layout = layout;
    this.#constants = constants.address;
    this.#layers = Array.from({ length: config.layers }, (_, layer) => this.#layerWeights(layer));
  }

  /** Computes a step up to its logits. @param splits ranges of keys of each decode that are computed in parallel */
  run(step: StepAddresses, size: StepSize, at: Activations, splits: number): void {
    const { positions, embeddingNorm, layers } = this.#config;
    const { tokens } = size;
    this.#launches.embed(at.x, step, this.#model("embedding"), this.#model("positions"), tokens);
    if (embeddingNorm) this.#launches.norm(0n, at.x, 0n, 0n, this.#modelNorm("embeddingNorm"), 0n, tokens, "layer");
    if (positions.kind === "rope")
      this.#launches.ropeTable(at.rope, step.positions, this.#constants, positions.factor, tokens);
    for (let layer = 0; layer < layers; layer++) {
      const weights = this.#layers[layer];
      const previous = this.#layers[layer - 1];
      this.#launches.norm(
        ...([at.normed, at.x, previous ? at.projected : 0n, previous?.downBias ?? 0n] as const),
        ...([weights.attentionNorm, 0n, tokens] as const),
      );
      this.#attention(layer, step, size, at, splits);
      this.#launches.norm(at.normed, at.x, at.projected, weights.outputBias, weights.ffnNorm, 0n, tokens);
      this.#feedForward(weights, at, tokens);
    }
    this.#logits(step, size, at, this.#layers[layers - 1].downBias);
  }

  #attention(layer: number, step: StepAddresses, size: StepSize, at: Activations, splits: number): void {
    const { hidden, heads, kvHeads, headDim, positions } = this.#config;
    const { qkv, store, output } = this.#layers[layer];
    const { tokens } = size;
    const width = heads * headDim;
    const keys = this.#pool.keys(layer);
    const values = this.#pool.values(layer);
    this.#products.multiply(at.qkv, at.normed, qkv, tokens, width + 2 * kvHeads * headDim, hidden, false, false);
    const rope = positions.kind === "rope" ? at.rope : 0n;
    this.#launches.qkvStore(at.qkv, store, rope, step.slots, keys, values, tokens);
    const slopes = positions.kind === "alibi" ? this.#constants : 0n;
    if (size.tiles > 0) this.#launches.attentionPrefill(at.attended, at.qkv, keys, values, step, slopes, size);
    if (size.decodes > 0)
      this.#launches.attentionDecode(
        ...([at.attended, at.partial, at.partialMaxSum, at.qkv, keys, values, step, slopes, size, splits] as const),
      );
    this.#products.multiply(at.projected, at.attended, output, tokens, hidden, width, false, false);
  }

  #feedForward(weights: LayerWeights, at: Activations, tokens: number): void {
    const { hidden, ffn, feedForward } = this.#config;
    const isGated = feedForward === "silu-gated";
    this.#products.multiply(at.up, at.normed, weights.up, tokens, isGated ? 2 * ffn : ffn, hidden, false, false);
    if (isGated) this.#launches.siluGate(at.inner, at.up, tokens);
    else this.#launches.gelu(at.up, weights.upBias, tokens);
    this.#products.multiply(at.projected, at.inner, weights.down, tokens, hidden, ffn, false, false);
  }

  /** The final norm gathers the rows of the logits. */
  #logits(step: StepAddresses, { logits }: StepSize, at: Activations, downBias: bigint): void {
    if (logits === 0) return;
    const { hidden, vocabulary, tiedEmbeddings } = this.#config;
    this.#launches.norm(at.normed, at.x, at.projected, downBias, this.#modelNorm("norm"), step.logitRows, logits);
    const head = this.#model(tiedEmbeddings ? "embedding" : "head");
    this.#products.multiply(at.logits, at.normed, head, logits, vocabulary, hidden, tiedEmbeddings, true);
  }

  #model(tensor: ModelTensor): bigint {
    const found = this.#layout.model.get(tensor);
    return found ? this.#weights.address + BigInt(found.offset) : 0n;
  }

  #modelNorm(name: "norm" | "embeddingNorm") {
    return { weight: this.#model(`${name}.weight`), bias: this.#model(`${name}.bias`) };
  }

  #layerWeights(layer: number): LayerWeights {
    const of = (tensor: DeviceLayerTensor): bigint => {
      const found = this.#layout.layers[layer].get(tensor);
      return found ? this.#weights.address + BigInt(found.offset) : 0n;
    };
    const norm = (name: "attentionNorm" | "ffnNorm") => ({
      weight: of(`${name}.weight` satisfies LayerTensor),
      bias: of(`${name}.bias` satisfies LayerTensor),
    });
    return {
      attentionNorm: norm("attentionNorm"),
      ffnNorm: norm("ffnNorm"),
      store: { bias: of("qkv.bias"), queryNorm: of("queryNorm"), keyNorm: of("keyNorm") },
      ...{ qkv: of("qkv"), output: of("output"), outputBias: of("output.bias") },
      ...{ up: of("up"), upBias: of("up.bias"), down: of("down"), downBias: of("down.bias") },
    };
  }
}

/** The constants of positions, as bytes for the device: inverse frequencies (float64) or slopes of ALiBi (float32). */
export function positionConstants({ positions, heads }: DecoderConfig): Uint8Array {
  const numbers =
    positions.kind === "rope" ? new Float64Array(positions.inverseFrequencies) : Float32Array.from(alibiSlopes(heads));
  return new Uint8Array(numbers.buffer);
}
