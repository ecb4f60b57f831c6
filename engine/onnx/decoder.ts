import type { DecoderConfig, LayerTensor, ModelTensor, WeightSource } from "../model/decoder.ts";
import { layerTensors, modelTensors } from "../model/tensors.ts";
import { Graph, type Ref } from "./graph.ts";
import { type OnnxBits, type Quantized, quantize, quantizedBlock } from "./quantized.ts";

/** Names of the inputs and outputs of a decoder's graph, with shapes for T tokens of B sequences and N rows of logits. */
export const names = {
  /** [T] */
  tokens: "tokens",
  /** [T] */
  positions: "positions",
  /** Cosines and sines of rotary embeddings by position, [positions, headDim / 2]. */
  cosines: "cosines",
  sines: "sines",
  /** Block tables, [B, blocks]; padded with any blocks. */
  tables: "tables",
  /** Rows of each sequence's queries, [B, queries]; padded with any rows. */
  queryRows: "queryRows",
  /** Index of each row in the padded queries, [T]. */
  unpadRows: "unpadRows",
  /** Index of each token in its gathered context, [T]; only with a window, where the context may begin after position 0. */
  places: "places",
  /** Index of each sequence's first row in its gathered context, [B]. */
  starts: "starts",
  /** [N] */
  logitRows: "logitRows",
  /** The pool, [blocks, block tokens, kvHeads · headDim], read-only. */
  keys: (layer: number) => `keys.${layer}`,
  values: (layer: number) => `values.${layer}`,
  /** Keys and values of the tokens, to be stored in the pool, [T, kvHeads · headDim]. */
  newKeys: (layer: number) => `newKeys.${layer}`,
  newValues: (layer: number) => `newValues.${layer}`,
  /** [N, vocabulary] */
  logits: "logits",
} as const;

/**
 * A decoder over a paged pool of keys and values. Tokens are packed without padding; only attention pads. The pool is an input
 * but not an output, because the runtime would copy all of it: new keys and values are separate outputs, and are scattered into
 * the gathered context, so that a token attends to itself and to earlier tokens of the same step.
 *
 *   pool ── gather by tables ─▶ context ── scatter new rows ─▶ attention
 *   x ── norm ── project, rotate ─▶ new keys, new values ──┘      │
 *                └──────────────▶ queries ────────────────────────┘
 *
 * Padding does not change the results, bit for bit: masked tokens have weight 0, and sums are in the order of positions.
 */
export function decoderGraph(
  config: DecoderConfig,
  weights: WeightSource,
  dataFile: string,
  bits: OnnxBits = 32,
): Graph {
  return new DecoderWriter(config, weights, dataFile, bits).write();
}

/** Values that all layers share. */
interface StepRefs {
  readonly positions: Ref;
  readonly starts: Ref;
  readonly logitUnpadRows: Ref;
  /** [B, rows, kvHeads · headDim] */
  readonly rowsShape: Ref;
  readonly mask: Ref;
}

class DecoderWriter {
  readonly #config: DecoderConfig;
  readonly #weights: WeightSource;
  readonly #graph: Graph;
  readonly #bits: OnnxBits;
  readonly #modelShapes;
  readonly #layerShapes;

  constructor(config: DecoderConfig, weights: WeightSource, dataFile: string, bits: OnnxBits) {
    this.#config = config;
    this.#bits = bits;
    this.#weights = weights;
    this.#graph = new Graph(dataFile);
    this.#modelShapes = new Map(modelTensors(config).map(({ tensor, shape }) => [tensor, shape]));
    this.#layerShapes = new Map(layerTensors(config).map(({ tensor, shape }) => [tensor, shape]));
  }

  write(): Graph {
    const { layers, hidden, kvHeads, headDim, vocabulary, positions, embeddingNorm, window } = this.#config;
    const graph = this.#graph;
    const kvWidth = kvHeads * headDim;
    for (const name of [names.tokens, names.positions, names.unpadRows]) graph.input(name, "int32", ["tokens"]);
    if (window !== undefined) graph.input(names.places, "int32", ["tokens"]);
    graph.input(names.starts, "int32", ["sequences"]);
    graph.input(names.tables, "int32", ["sequences", "blocks"]);
    graph.input(names.queryRows, "int32", ["sequences", "queries"]);
    graph.input(names.logitRows, "int32", ["logits"]);
    if (positions.kind === "rope")
      for (const name of [names.cosines, names.sines]) graph.input(name, "float", ["positions", headDim / 2]);

    const embedding = this.#model("embedding");
    let x = this.#rows(embedding, names.tokens);
    if (positions.kind === "learned") x = graph.op("Add", [x, this.#rows(this.#model("positions"), names.positions)]);
    if (embeddingNorm) x = this.#layerNorm(x, this.#model("embeddingNorm.weight"), this.#model("embeddingNorm.bias"));
    const step = this.#step();
    for (let layer = 0; layer < layers; layer++) {
      graph.input(names.keys(layer), "float", ["pool blocks", "block tokens", kvWidth]);
      graph.input(names.values(layer), "float", ["pool blocks", "block tokens", kvWidth]);
      graph.output(names.newKeys(layer), "float", ["tokens", kvWidth]);
      graph.output(names.newValues(layer), "float", ["tokens", kvWidth]);
      const isLast = layer === layers - 1;
      const attended = this.#attention(layer, x, step, isLast);
      // After the last attention only the rows of the requested logits are computed.
      const before = isLast ? this.#rows(x, names.logitRows) : x;
      const between = graph.op("Add", [before, attended]);
      x = graph.op("Add", [between, this.#feedForward(layer, between)]);
    }
    const normed = this.#norm(x, (part) => this.#model(`norm.${part}`));
    if (this.#config.tiedEmbeddings && this.#bits === 32)
      graph.op("Gemm", [normed, embedding], { attributes: { transB: { int: 1 } }, name: names.logits });
    else this.#product(normed, "model.head", [hidden, vocabulary], () => this.#weights.model("head"), names.logits);
    graph.output(names.logits, "float", ["logits", vocabulary]);
    return graph;
  }

  #step(): StepRefs {
    const graph = this.#graph;
    const { kvHeads, headDim } = this.#config;
    return {
      positions: graph.op("Unsqueeze", [this.#cast(names.positions), graph.ints(0)]),
      starts: this.#cast(names.starts),
      logitUnpadRows: this.#rows(names.unpadRows, names.logitRows),
      rowsShape: graph.ints(0, -1, kvHeads * headDim),
      mask: this.#mask(),
    };
  }

  /**
   * The attention mask, which is added to the scores, [B, 1, queries · group, context]: 0, or −∞ for masked tokens. With
   * ALiBi it depends on the head, [B, kvHeads, queries · group, context]: slope · distance.
   */
  #mask(): Ref {
    const graph = this.#graph;
    const { window, positions, heads, kvHeads } = this.#config;
    const group = heads / kvHeads;
    const contextLength = graph.op("Mul", [this.#length(names.tables, 1), this.#length(names.keys(0), 1)]);
    const keyAt = graph.op("Range", [graph.int(0), contextLength, graph.int(1)]);
    const places = window === undefined ? names.positions : names.places;
    const queryAt = graph.op("Unsqueeze", [this.#cast(this.#rows(places, names.queryRows)), graph.ints(1, 3, 4)]);
    let visible = graph.op("LessOrEqual", [keyAt, queryAt]);
    if (window !== undefined) {
      const first = graph.op("Sub", [queryAt, graph.int(window)]);
      visible = graph.op("And", [visible, graph.op("Greater", [keyAt, first])]);
    }
    const isAlibi = positions.kind === "alibi";
    let added = graph.floats([group, 1], Array<number>(group).fill(0));
    if (isAlibi) {
      const distance = graph.op("Cast", [graph.op("Sub", [keyAt, queryAt])], { attributes: { to: { int: 1 } } });
      added = graph.op("Mul", [distance, graph.floats([kvHeads, 1, group, 1], alibiSlopes(heads))]);
    }
    const mask = graph.op("Where", [visible, added, graph.float(Number.NEGATIVE_INFINITY)]);
    const shape = [graph.ints(0, isAlibi ? kvHeads : 1, -1), graph.op("Unsqueeze", [contextLength, graph.ints(0)])];
    return graph.op("Reshape", [mask, graph.op("Concat", shape, { attributes: { axis: { int: 0 } } })]);
  }

  #attention(layer: number, x: Ref, step: StepRefs, isLast: boolean): Ref {
    const graph = this.#graph;
    const { heads, kvHeads, headDim, qkNorm, biases } = this.#config;
    const kvWidth = kvHeads * headDim;
    const h = this.#norm(x, (part) => this.#layer(layer, `attentionNorm.${part}`));
    const project = (tensor: "query" | "key" | "value", name?: Ref) =>
      this.#linear(layer, tensor, h, biases.qkv ? `${tensor}.bias` : undefined, name);
    const positioned = (tensor: "query" | "key", width: number, name?: Ref) => {
      const isRope = this.#config.positions.kind === "rope";
      if (!qkNorm && !isRope) return project(tensor, name);
      let rows = project(tensor);
      if (qkNorm) rows = this.#headNorm(rows, this.#layer(layer, `${tensor}Norm`), width, isRope ? undefined : name);
      return isRope ? this.#rotated(rows, step.positions, name) : rows;
    };
    const queries = positioned("query", heads * headDim);
    const newKeys = positioned("key", kvWidth, names.newKeys(layer));
    const newValues = project("value", names.newValues(layer));
    const attended = graph.op(
      "Attention",
      [
        graph.op("Reshape", [this.#rows(queries, names.queryRows), step.rowsShape]),
        this.#context(names.keys(layer), newKeys, step),
        this.#context(names.values(layer), newValues, step),
        step.mask,
      ],
      {
        attributes: {
          q_num_heads: { int: kvHeads },
          kv_num_heads: { int: kvHeads },
          scale: { float: 1 / Math.sqrt(headDim) },
        },
      },
    );
    const packed = this.#rows(
      graph.op("Reshape", [attended, graph.ints(-1, heads * headDim)]),
      isLast ? step.logitUnpadRows : names.unpadRows,
    );
    return this.#linear(layer, "output", packed, biases.output ? "output.bias" : undefined);
  }

  /** The gathered context: the blocks of each sequence with its new rows scattered into them, [B, context, kvWidth]. */
  #context(pool: Ref, rows: Ref, step: StepRefs): Ref {
    const graph = this.#graph;
    const shape = ["sequences", "context", this.#config.kvHeads * this.#config.headDim];
    const gathered = graph.op("Reshape", [this.#rows(pool, names.tables), step.rowsShape]);
    const whole = graph.op("TensorScatter", [gathered, this.#rows(rows, names.queryRows), step.starts], {
      attributes: { axis: { int: 1 } },
    });
    // Declares equal shapes, so that the runtime scatters in place.
    graph.shaped(gathered, shape);
    return graph.shaped(whole, shape);
  }

  #rotated(rows: Ref, positions: Ref, name?: Ref): Ref {
    const graph = this.#graph;
    const batch = graph.op("Unsqueeze", [rows, graph.ints(0)]);
    const rotated = graph.op("RotaryEmbedding", [batch, positions, names.cosines, names.sines], {
      domain: "com.microsoft",
    });
    return graph.op("Squeeze", [rotated, graph.ints(0)], name === undefined ? {} : { name });
  }

  #headNorm(rows: Ref, weight: Ref, width: number, name?: Ref): Ref {
    const graph = this.#graph;
    const heads = graph.op("Reshape", [rows, graph.ints(-1, this.#config.headDim)]);
    return graph.op(
      "Reshape",
      [this.#rmsNorm(heads, weight), graph.ints(-1, width)],
      name === undefined ? {} : { name },
    );
  }

  #feedForward(layer: number, x: Ref): Ref {
    const graph = this.#graph;
    const { feedForward, biases } = this.#config;
    const h = this.#norm(x, (part) => this.#layer(layer, `ffnNorm.${part}`));
    const up = this.#linear(layer, "up", h, biases.ffn ? "up.bias" : undefined);
    let inner: Ref;
    if (feedForward === "silu-gated") {
      const gate = this.#linear(layer, "gate", h);
      inner = graph.op("Mul", [graph.op("Mul", [gate, graph.op("Sigmoid", [gate])]), up]);
    } else {
      const approximate = { text: feedForward === "gelu-tanh" ? "tanh" : "none" };
      inner = graph.op("Gelu", [up], { attributes: { approximate } });
    }
    return this.#linear(layer, "down", inner, biases.ffn ? "down.bias" : undefined);
  }

  #linear(layer: number, tensor: LayerTensor, x: Ref, bias?: LayerTensor, name?: Ref): Ref {
    const shape = this.#layerShapes.get(tensor)!;
    const read = () => this.#grouped(tensor, this.#weights.layer(layer, tensor));
    const product = this.#product(x, `layer.${layer}.${tensor}`, shape, read, bias === undefined ? name : undefined);
    if (bias === undefined) return product;
    return this.#graph.op("Add", [product, this.#layer(layer, bias)], name === undefined ? {} : { name });
  }

  /**
   * x times a weight matrix. Quantized weights are multiplied by rows quantized to 8 bits: only then are results independent of
   * the batch.
   */
  #product(x: Ref, tensor: Ref, [inputs, outputs]: readonly number[], read: () => Float32Array, name?: Ref): Ref {
    const graph = this.#graph;
    const named = name === undefined ? {} : { name };
    const bits = this.#bits;
    if (bits === 32) return graph.op("MatMul", [x, graph.weight(tensor, "float", [inputs, outputs], read)], named);
    const blocks = Math.ceil(inputs / quantizedBlock);
    // Values and scales are computed together, and written one after the other.
    let scales: Float32Array | undefined;
    const quantized = (): Quantized => quantize(read(), inputs, outputs, bits);
    const values = graph.weight(`${tensor}.values`, "uint8", [outputs, blocks, (quantizedBlock * bits) / 8], () => {
      const made = quantized();
      scales = made.scales;
      return made.values;
    });
    const scale = graph.weight(`${tensor}.scales`, "float", [outputs * blocks], () => {
      const made = scales ?? quantized().scales;
      scales = undefined;
      return made;
    });
    const attributes = {
      K: { int: inputs },
      N: { int: outputs },
      bits: { int: bits },
      block_size: { int: quantizedBlock },
      accuracy_level: { int: 4 },
    };
    return graph.op("MatMulNBits", [x, values, scale], { domain: "com.microsoft", attributes, ...named });
  }

  #norm(x: Ref, tensor: (part: "weight" | "bias") => Ref): Ref {
    if (this.#config.norm.kind === "rms") return this.#rmsNorm(x, tensor("weight"));
    return this.#layerNorm(x, tensor("weight"), tensor("bias"));
  }

  #rmsNorm(x: Ref, weight: Ref): Ref {
    const attributes = { axis: { int: -1 }, epsilon: { float: this.#config.norm.epsilon } };
    return this.#graph.op("RMSNormalization", [x, weight], { attributes });
  }

  #layerNorm(x: Ref, weight: Ref, bias: Ref): Ref {
    const attributes = { axis: { int: -1 }, epsilon: { float: this.#config.norm.epsilon } };
    return this.#graph.op("LayerNormalization", [x, weight, bias], { attributes });
  }

  #rows(table: Ref, rows: Ref): Ref {
    return this.#graph.op("Gather", [table, rows], { attributes: { axis: { int: 0 } } });
  }

  /** Casts to 64-bit integers, which some operators require. */
  #cast(value: Ref): Ref {
    return this.#graph.op("Cast", [value], { attributes: { to: { int: 7 } } });
  }

  /** Length of a dimension, a scalar. */
  #length(value: Ref, dimension: number): Ref {
    const shape = this.#graph.op("Shape", [value]);
    return this.#graph.op("Gather", [shape, this.#graph.int(dimension)], { attributes: { axis: { int: 0 } } });
  }

  #model(tensor: ModelTensor): Ref {
    return this.#graph.weight(`model.${tensor}`, "float", this.#modelShapes.get(tensor)!, () =>
      this.#weights.model(tensor),
    );
  }

  #layer(layer: number, tensor: LayerTensor): Ref {
    return this.#graph.weight(`layer.${layer}.${tensor}`, "float", this.#layerShapes.get(tensor)!, () =>
      this.#grouped(tensor, this.#weights.layer(layer, tensor)),
    );
  }

  /**
   * Reorders the query heads for grouped-query attention: query heads that share a KV head are rows of one head, so that KV is
   * read once. The first heads of all groups precede the second heads of all groups, and so on.
   */
  #grouped(tensor: LayerTensor, values: Float32Array): Float32Array {
    const { heads, kvHeads, headDim, hidden } = this.#config;
    const group = heads / kvHeads;
    const width = { query: headDim, "query.bias": headDim, output: headDim * hidden }[tensor as string];
    if (width === undefined || group === 1) return values;
    const result = new Float32Array(values.length);
    for (let row = 0; row < values.length; row += heads * width)
      for (let head = 0; head < heads; head++) {
        const from = row + head * width;
        const to = row + ((head % group) * kvHeads + Math.floor(head / group)) * width;
        result.set(values.subarray(from, from + width), to);
      }
    return result;
  }
}

/**
 * Slopes of ALiBi (Press et al. 2022): 2^(−8/n), 2^(−16/n) … for n heads; if n is not a power of two, those of the next
 * lower power, then every other one of the next higher power.
 */
export function alibiSlopes(heads: number): number[] {
  const lower = 2 ** Math.floor(Math.log2(heads));
  const slope = (i: number, of: number) => 2 ** ((-8 * (i + 1)) / of);
  return Array.from({ length: heads }, (_, i) => (i < lower ? slope(i, lower) : slope(2 * (i - lower), 2 * lower)));
}
