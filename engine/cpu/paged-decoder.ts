import "./no-telemetry.ts";
import { assert, InputError } from "../../core/errors.ts";
import { WallClock } from "../clock.ts";
import type { BatchResult, BatchStep, BlockData } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { names } from "../onnx/decoder.ts";
import { argmax } from "../sampling.ts";
import { callRules } from "./call-rules.ts";
import { CallPlanner, firstGathered, splitPrompts } from "./calls.ts";
import { InferenceSession, Tensor } from "./onnxruntime.ts";
import { RotaryTable } from "./rotary-table.ts";

export interface PagedDecoderOptions {
  /** Path of the ONNX model. */
  readonly model: string;
  readonly config: DecoderConfig;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly threads: number;
}

/**
 * A decoder and its pool of keys and values, in the calling thread. The pool is two arrays per layer, which the graph reads
 * without a copy; keys and values of new tokens are written to it here.
 */
export class PagedDecoder {
  readonly #options: PagedDecoderOptions;
  readonly #session: InferenceSession;
  readonly #planner: CallPlanner;
  readonly #longestQuery: number;
  readonly #rotary: RotaryTable | undefined;
  readonly #keys: Float32Array[] = [];
  readonly #values: Float32Array[] = [];
  /** The pool as inputs of the graph. */
  readonly #pool: Record<string, Tensor> = {};
  readonly #outputs: Outputs;
  readonly #clock = new WallClock();

  /**
   * @throws InputError if there is no memory for the pool
   * @throws Error of ONNX Runtime if the model cannot be loaded
   */
  static async load(options: PagedDecoderOptions): Promise<PagedDecoder> {
    const session = await InferenceSession.create(options.model, {
      intraOpNumThreads: options.threads,
      interOpNumThreads: 1,
      // The runtime would store a memory pattern for each combination of shapes; nearly every step has another one.
      enableMemPattern: false,
      // Errors are thrown, so they need not be logged, too.
      logSeverityLevel: 4,
      extra: {
        session: {
          // Waking a thread takes about as long as running a small operator, so threads spin until the next operator, but only
          // for a short time and not between steps, because spinning threads occupy cores.
          intra_op: { allow_spinning: "1", spin_duration_us: "50" },
          force_spinning_stop: "1",
          // Flushes denormals to zero in the runtime's threads; starter.ts sets the same flag for this thread.
          set_denormal_as_zero: "1",
        },
      },
    });
    const decoder = new PagedDecoder(options, session);
    await decoder.#warmUp();
    return decoder;
  }

  private constructor(options: PagedDecoderOptions, session: InferenceSession) {
    const { config, blockCount, blockTokens } = options;
    this.#options = options;
    this.#session = session;
    this.#planner = new CallPlanner(config, blockCount, blockTokens);
    this.#longestQuery = callRules(config).longestQuery;
    this.#outputs = new Outputs(config);
    this.#rotary = config.positions.kind === "rope" ? new RotaryTable(config.positions) : undefined;
    for (let layer = 0; layer < config.layers; layer++) {
      this.#keys.push(this.#poolArray());
      this.#values.push(this.#poolArray());
      const shape = [blockCount, blockTokens, config.kvHeads * config.headDim];
      this.#pool[names.keys(layer)] = new Tensor("float32", this.#keys[layer], shape);
      this.#pool[names.values(layer)] = new Tensor("float32", this.#values[layer], shape);
    }
  }

  /**
   * Runs a prompt of the maximum length of a call without storing its keys and values, so that the runtime's buffers have their
   * final size and all weights have been read. A step that touches memory for the first time takes up to twice as long; this
   * can still happen in the first step with several long prompts.
   */
  async #warmUp(): Promise<void> {
    const { config, blockTokens } = this.#options;
    const tokens = Math.min(this.#longestQuery, config.maxPositions);
    const blocks = Math.ceil(tokens / blockTokens);
    await this.executeStep({
      inputIds: new Int32Array(tokens),
      positions: Int32Array.from({ length: tokens }, (_, i) => i),
      slotMapping: new Int32Array(tokens).fill(-1),
      cuSeqlensQ: Int32Array.of(0, tokens),
      contextLens: Int32Array.of(tokens),
      blockTables: new Int32Array(blocks),
      maxBlocksPerSequence: blocks,
      logitsIndices: Int32Array.of(tokens - 1),
    });
  }

  async executeStep(whole: BatchStep): Promise<BatchResult> {
    const step = splitPrompts(whole, this.#longestQuery);
    const { vocabulary, heads, kvHeads } = this.#options.config;
    const minQueries = Math.ceil((minRows * kvHeads) / heads);
    const startNs = this.#clock.now();
    let deviceNs = 0;
    const { sampling } = step;
    const tokens = sampling && new Int32Array(sampling.length);
    const logits = new Float32Array(tokens ? 0 : step.logitsIndices.length * vocabulary);
    for (const sequences of this.#planner.plan(step)) {
      const call = new Call(step, sequences, this.#options, minQueries);
      const inputs = { ...this.#pool, ...this.#rotary?.inputs(call.rotaryPositions), ...call.inputs };
      const runNs = this.#clock.now();
      const outputs = this.#outputs.of(call.slots.length, call.logits.length);
      await this.#session.run(inputs, outputs.tensors);
      deviceNs += this.#clock.now() - runNs;
      this.#store(outputs, call.slots);
      call.logits.forEach((row, i) => {
        const own = outputs.logits.subarray(i * vocabulary, (i + 1) * vocabulary);
        if (tokens) tokens[row] = argmax(own);
        else logits.set(own, row * vocabulary);
      });
    }
    const deviceMs = deviceNs / 1e6;
    return {
      logits,
      ...(tokens && { tokens }),
      timing: { deviceMs, hostMs: (this.#clock.now() - startNs) / 1e6 - deviceMs },
    };
  }

  copyBlocks(pairs: readonly { readonly source: number; readonly target: number }[]): void {
    const width = this.#blockWidth;
    for (const pool of [...this.#keys, ...this.#values])
      for (const { source, target } of pairs) pool.copyWithin(target * width, source * width, (source + 1) * width);
  }

  readBlocks(blocks: readonly number[]): BlockData[] {
    return blocks.map((block) => this.readBlock(block));
  }

  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): void {
    blocks.forEach((block, i) => {
      this.writeBlock(block, data[i]);
    });
  }

  readBlock(block: number): BlockData {
    const width = this.#blockWidth;
    const read = (pools: readonly Float32Array[]) => {
      const all = new Float32Array(pools.length * width);
      pools.forEach((pool, layer) => {
        all.set(pool.subarray(block * width, (block + 1) * width), layer * width);
      });
      return all;
    };
    return { keys: read(this.#keys), values: read(this.#values) };
  }

  writeBlock(block: number, { keys, values }: BlockData): void {
    const width = this.#blockWidth;
    const write = (pools: readonly Float32Array[], all: BlockData["keys"]) => {
      assert(all instanceof Float32Array, "a float32 pool is written with float32 numbers");
      assert(all.length === pools.length * width, `${all.length} numbers for ${pools.length} layers of ${width}`);
      pools.forEach((pool, layer) => {
        pool.set(all.subarray(layer * width, (layer + 1) * width), block * width);
      });
    };
    write(this.#keys, keys);
    write(this.#values, values);
  }

  async close(): Promise<void> {
    await this.#session.release();
  }

  /** Numbers of a block in one layer's keys or values. */
  get #blockWidth(): number {
    const { config, blockTokens } = this.#options;
    return blockTokens * config.kvHeads * config.headDim;
  }

  /**
   * All zeros, because masked values are still multiplied by 0. Written and not only reserved, because otherwise the system
   * would allocate each page at its first use, during a step.
   */
  #poolArray(): Float32Array {
    const { config, blockCount, blockTokens } = this.#options;
    try {
      return new Float32Array(blockCount * this.#blockWidth).fill(0);
    } catch {
      const gib = (2 * 4 * config.layers * blockCount * this.#blockWidth) / 2 ** 30;
      throw new InputError(
        `no memory for a pool of ${blockCount} blocks of ${blockTokens} tokens: ${gib.toFixed(1)} GiB`,
      );
    }
  }

  #store({ keys, values }: CallOutputs, slots: Int32Array): void {
    const width = this.#blockWidth / this.#options.blockTokens;
    this.#keys.forEach((pool, layer) => {
      copyRuns(keys[layer], pool, slots, width);
      copyRuns(values[layer], this.#values[layer], slots, width);
    });
  }
}

/** Outputs of a call: keys and values of the rows in each layer, and logits of the requested rows. */
interface CallOutputs {
  readonly keys: readonly Float32Array[];
  readonly values: readonly Float32Array[];
  readonly logits: Float32Array;
  /** The same arrays as tensors, to which the runtime writes. */
  readonly tensors: Readonly<Record<string, Tensor>>;
}

/**
 * Output buffers of calls, reused by every call and as large as the largest call so far. Buffers allocated by the runtime would
 * stay until garbage collection, so that every call would touch new memory.
 */
class Outputs {
  readonly #config: DecoderConfig;
  #rows = new Float32Array(0);
  #logits = new Float32Array(0);

  constructor(config: DecoderConfig) {
    this.#config = config;
  }

  /** Valid until the next call. */
  of(rowCount: number, logitCount: number): CallOutputs {
    const { layers, kvHeads, headDim, vocabulary } = this.#config;
    const width = kvHeads * headDim;
    const size = rowCount * width;
    if (this.#rows.length < 2 * layers * size) this.#rows = new Float32Array(2 * layers * size);
    if (this.#logits.length < logitCount * vocabulary) this.#logits = new Float32Array(logitCount * vocabulary);
    const part = (i: number) => this.#rows.subarray(i * size, (i + 1) * size);
    const keys = Array.from({ length: layers }, (_, layer) => part(2 * layer));
    const values = Array.from({ length: layers }, (_, layer) => part(2 * layer + 1));
    const logits = this.#logits.subarray(0, logitCount * vocabulary);
    const tensors: Record<string, Tensor> = {
      [names.logits]: new Tensor("float32", logits, [logitCount, vocabulary]),
    };
    for (let layer = 0; layer < layers; layer++) {
      tensors[names.newKeys(layer)] = new Tensor("float32", keys[layer], [rowCount, width]);
      tensors[names.newValues(layer)] = new Tensor("float32", values[layer], [rowCount, width]);
    }
    return { keys, values, logits, tensors };
  }
}

/** Copies row i to slot `slots[i]`, rows of consecutive slots at once; −1: not stored. */
function copyRuns(rows: Float32Array, pool: Float32Array, slots: Int32Array, width: number): void {
  for (let from = 0, to = 0; from < slots.length; from = to) {
    for (to = from + 1; to < slots.length && slots[from] >= 0 && slots[to] === slots[to - 1] + 1; ) to++;
    if (slots[from] >= 0) pool.set(rows.subarray(from * width, to * width), slots[from] * width);
  }
}

/**
 * The runtime computes the matrix product of a single row with another kernel, which sums in another order. With at least two
 * query rows, padding included, all results are bit-identical. Heads that share a key are separate rows.
 */
const minRows = 2;

/**
 * For heads wider than 128 the runtime sums products of queries and keys in other groups if the context has 64 tokens or
 * fewer.
 */
const minContext = ({ headDim }: DecoderConfig) => (headDim > 128 ? 65 : 1);

/** The inputs of one call: some sequences of a step, packed; only attention pads them to the longest. */
class Call {
  readonly inputs: Readonly<Record<string, Tensor>>;
  readonly slots: Int32Array;
  /** Indices in the step's logits of those that this call computes, in their order. */
  readonly logits: readonly number[];
  /** Minimum rows of the rotary embedding tables: the runtime accepts no more rows of tokens than that. */
  readonly rotaryPositions: number;

  constructor(
    step: BatchStep,
    sequences: readonly number[],
    { config, blockTokens }: PagedDecoderOptions,
    minQueries: number,
  ) {
    const { cuSeqlensQ, contextLens, blockTables, maxBlocksPerSequence } = step;
    const rowCount = sum(sequences, (s) => cuSeqlensQ[s + 1] - cuSeqlensQ[s]);
    const queries = Math.max(minQueries, ...sequences.map((s) => cuSeqlensQ[s + 1] - cuSeqlensQ[s]));
    const begins = sequences.map((s) => contextLens[s] - (cuSeqlensQ[s + 1] - cuSeqlensQ[s]));
    /** By sequence: first position of its gathered context. */
    const firsts = begins.map((begin) => firstGathered(config, blockTokens, begin));
    const starts = Int32Array.from(begins, (begin, i) => begin - firsts[i]);
    // Padding rows are scattered into the context, too, after the tokens that are attended to.
    const blocks = Math.ceil(Math.max(minContext(config), Math.max(...starts) + queries) / blockTokens);
    const tokens = new Int32Array(rowCount);
    const positions = new Int32Array(rowCount);
    const places = new Int32Array(rowCount);
    const slots = new Int32Array(rowCount);
    const tables = new Int32Array(sequences.length * blocks);
    const queryRows = new Int32Array(sequences.length * queries);
    const unpadRows = new Int32Array(rowCount);
    /** By row of the step: its row in this call. */
    const rowOf = new Map<number, number>();
    let row = 0;
    sequences.forEach((sequence, i) => {
      const [from, to] = [cuSeqlensQ[sequence], cuSeqlensQ[sequence + 1]];
      const table = blockTables.subarray(sequence * maxBlocksPerSequence, (sequence + 1) * maxBlocksPerSequence);
      const [first, end] = [firsts[i] / blockTokens, Math.ceil(contextLens[sequence] / blockTokens)];
      tables.set(table.subarray(first, end), i * blocks);
      tokens.set(step.inputIds.subarray(from, to), row);
      positions.set(step.positions.subarray(from, to), row);
      slots.set(step.slotMapping.subarray(from, to), row);
      for (let at = from; at < to; at++, row++) {
        rowOf.set(at, row);
        places[row] = step.positions[at] - firsts[i];
        queryRows[i * queries + at - from] = row;
        unpadRows[row] = i * queries + at - from;
      }
      // Padding repeats the last query.
      queryRows.fill(row - 1, i * queries + to - from, (i + 1) * queries);
    });
    const logits: number[] = [];
    const logitRows: number[] = [];
    step.logitsIndices.forEach((at, i) => {
      const here = rowOf.get(at);
      if (here === undefined) return;
      logits.push(i);
      logitRows.push(here);
    });
    this.slots = slots;
    this.logits = logits;
    this.rotaryPositions = Math.max(rowCount, ...sequences.map((s) => contextLens[s]));
    const tensor = (data: Int32Array, ...shape: number[]) => new Tensor("int32", data, shape);
    this.inputs = {
      [names.tokens]: tensor(tokens, rowCount),
      [names.positions]: tensor(positions, rowCount),
      [names.tables]: tensor(tables, sequences.length, blocks),
      [names.queryRows]: tensor(queryRows, sequences.length, queries),
      [names.unpadRows]: tensor(unpadRows, rowCount),
      ...(config.window !== undefined && { [names.places]: tensor(places, rowCount) }),
      [names.starts]: tensor(starts, sequences.length),
      [names.logitRows]: tensor(Int32Array.from(logitRows), logitRows.length),
    };
  }
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
