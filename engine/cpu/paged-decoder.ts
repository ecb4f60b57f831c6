import "./no-telemetry.ts";
import { assert, InputError } from "../../core/errors.ts";
import { WallClock } from "../clock.ts";
import type { BatchResult, BatchStep, BlockData } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { names } from "../onnx/decoder.ts";
import { argmax } from "../sampling.ts";
import { callRules } from "./call-rules.ts";
import { CallPlanner, firstGathered, inPieces } from "./calls.ts";
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
 * A decoder and its pool of keys and values, in this thread. The pool is plain memory, two arrays a layer, which the graph
 * reads where they are; new rows are stored in it here.
 */
export class PagedDecoder {
  readonly #options: PagedDecoderOptions;
  readonly #session: InferenceSession;
  readonly #planner: CallPlanner;
  readonly #longestQuery: number;
  readonly #rotary: RotaryTable | undefined;
  readonly #keys: Float32Array[] = [];
  readonly #values: Float32Array[] = [];
  /** The pool as inputs. */
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
      // A pattern is remembered for each combination of shapes, and nearly every step has its own.
      enableMemPattern: false,
      // Errors are thrown; to print them as well would say everything twice.
      logSeverityLevel: 4,
      extra: {
        session: {
          // To wake a thread takes about as long as to run a small operator, so that they wait awake for the next one; not
          // longer than that, and not between steps, because spinning threads would take the cores from other processes.
          intra_op: { allow_spinning: "1", spin_duration_us: "50" },
          force_spinning_stop: "1",
          // In the threads of the runtime as in this one (starter.ts).
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
   * A prompt that is stored nowhere, as long as a piece of one may be: what the runtime keeps its results in becomes as large as
   * that, and the weights are read. Where memory is touched for the first time, a step takes up to twice as long; a step of several
   * long prompts is still the first of its size.
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
    const step = inPieces(whole, this.#longestQuery);
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
   * All zeros, because what is masked is still multiplied with 0. Written and not only reserved: the system would find memory
   * for a block when a request comes to it, and let it wait for that.
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

/** What a call computes: of each layer the rows' keys and values, and the rows' logits that are wanted. */
interface CallOutputs {
  readonly keys: readonly Float32Array[];
  readonly values: readonly Float32Array[];
  readonly logits: Float32Array;
  /** The same, with the buffers that the runtime writes to. */
  readonly tensors: Readonly<Record<string, Tensor>>;
}

/**
 * Where calls write their outputs: the same memory each time, that of the largest call so far. The runtime's own outputs would be kept until they are collected
 * as garbage, and allocations in the meantime would get memory that was never used before.
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

/** Row i goes to slot i, rows of neighbouring slots at once; −1 is nowhere. */
function copyRuns(rows: Float32Array, pool: Float32Array, slots: Int32Array, width: number): void {
  for (let from = 0, to = 0; from < slots.length; from = to) {
    for (to = from + 1; to < slots.length && slots[from] >= 0 && slots[to] === slots[to - 1] + 1; ) to++;
    if (slots[from] >= 0) pool.set(rows.subarray(from * width, to * width), slots[from] * width);
  }
}

/**
 * A matrix product of a single row takes another path through the runtime than that of several, and another path adds in
 * another order. With two rows of queries at least, padding included, all results are the same to the last bit. The heads
 * that share a key are rows of their own.
 */
const minRows = 2;

/** The products of queries and keys wider than 128 are summed in other groups where a context has 64 tokens or fewer. */
const minContext = ({ headDim }: DecoderConfig) => (headDim > 128 ? 65 : 1);

/** The inputs of one call: some sequences of a step, packed; attention has them padded to the longest. */
class Call {
  readonly inputs: Readonly<Record<string, Tensor>>;
  readonly slots: Int32Array;
  /** Which of the step's logits are computed here, in their order. */
  readonly logits: readonly number[];
  /** Which the tables of rotary embeddings must have: the runtime takes no more rows than that. */
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
    /** Where each sequence's gathered context begins. */
    const firsts = begins.map((begin) => firstGathered(config, blockTokens, begin));
    const starts = Int32Array.from(begins, (begin, i) => begin - firsts[i]);
    // Rows of padding are put into the context, too, behind what is seen of it.
    const blocks = Math.ceil(Math.max(minContext(config), Math.max(...starts) + queries) / blockTokens);
    const tokens = new Int32Array(rowCount);
    const positions = new Int32Array(rowCount);
    const places = new Int32Array(rowCount);
    const slots = new Int32Array(rowCount);
    const tables = new Int32Array(sequences.length * blocks);
    const queryRows = new Int32Array(sequences.length * queries);
    const answerRows = new Int32Array(rowCount);
    /** Where a row of the step is here. */
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
        answerRows[row] = i * queries + at - from;
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
      [names.answerRows]: tensor(answerRows, rowCount),
      ...(config.window !== undefined && { [names.places]: tensor(places, rowCount) }),
      [names.starts]: tensor(starts, sequences.length),
      [names.logitRows]: tensor(Int32Array.from(logitRows), logitRows.length),
    };
  }
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
