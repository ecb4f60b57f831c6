import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { median } from "../core/serving/distribution.ts";
import type { DecoderConfig, LayerTensor, WeightSource } from "../engine/model/decoder.ts";
import { randomConfig, randomWeights } from "../engine/model/random.ts";
import { openEngine, stepMs, stepOf } from "./engine.ts";
import type { Measurement } from "./measure.ts";

/**
 * Compares llama.cpp with this engine: the same weights, each with the better of one and two threads, measured alternately.
 * node-llama-cpp is not a dependency: run `npm install --no-save --ignore-scripts node-llama-cpp@3`, or set KVLAB_LLAMA_CPP to
 * a folder that contains it.
 */
const batches = [1, 4, 8] as const;
const context = 512;
const rounds = 3;
const decodedTokens = 24;

/** The used part of node-llama-cpp's interface. */
interface LlamaCpp {
  getLlama(options: object): Promise<{ loadModel(options: object): Promise<LlamaModel> }>;
  LlamaLogLevel: { readonly error: unknown };
}
interface LlamaModel {
  createContext(options: object): Promise<LlamaContext>;
  dispose(): Promise<void>;
}
interface LlamaContext {
  getSequence(): LlamaSequence;
  dispose(): Promise<void>;
}
interface LlamaSequence {
  clearHistory(): Promise<void>;
  evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void>;
  evaluate(tokens: number[], options: object): AsyncGenerator<number>;
}

/** Measurements of an engine: milliseconds of a prefill, and of one after a cached prefix; tokens/s of decoding. */
interface Speeds {
  readonly prefillMs: number;
  readonly cachedMs: number;
  readonly decoded: readonly number[];
}

async function llamaCpp(): Promise<LlamaCpp | undefined> {
  const from = createRequire(join(process.env["KVLAB_LLAMA_CPP"] ?? process.cwd(), "index.js"));
  try {
    return await import(pathToFileURL(from.resolve("node-llama-cpp")).href);
  } catch {
    return undefined;
  }
}

/** Writes GGUF version 3: header, pairs of names and values, descriptions of tensors, tensors (github.com/ggml-org/ggml). */
class Gguf {
  readonly #parts: Buffer[] = [];

  u32(value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return this.#add(bytes);
  }
  u64(value: number): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    return this.#add(bytes);
  }
  f32(value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    return this.#add(bytes);
  }
  text(value: string): this {
    const bytes = Buffer.from(value);
    return this.u64(bytes.length).#add(bytes);
  }
  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
  #add(bytes: Buffer): this {
    this.#parts.push(bytes);
    return this;
  }
}

const kinds = { u32: 4, f32: 6, text: 8, array: 9 } as const;
const alignment = 32;

/** Writes a Llama with these weights for llama.cpp. */
async function writeGguf(path: string, config: DecoderConfig, weights: WeightSource): Promise<void> {
  const { layers, hidden, heads, kvHeads, headDim, ffn, vocabulary, maxPositions, norm } = config;
  const tensors: { name: string; shape: readonly number[]; read: () => Float32Array }[] = [];
  const matrix = (name: string, inputs: number, outputs: number, read: () => Float32Array) =>
    tensors.push({ name, shape: [inputs, outputs], read: () => transposed(read(), inputs, outputs) });
  const vector = (name: string, read: () => Float32Array) => tensors.push({ name, shape: [hidden], read });
  tensors.push({ name: "token_embd.weight", shape: [hidden, vocabulary], read: () => weights.model("embedding") });
  vector("output_norm.weight", () => weights.model("norm.weight"));
  matrix("output.weight", hidden, vocabulary, () => weights.model("head"));
  for (let layer = 0; layer < layers; layer++) {
    const of = (tensor: LayerTensor) => () => weights.layer(layer, tensor);
    const name = (tensor: string) => `blk.${layer}.${tensor}.weight`;
    vector(name("attn_norm"), of("attentionNorm.weight"));
    vector(name("ffn_norm"), of("ffnNorm.weight"));
    matrix(name("attn_q"), hidden, heads * headDim, () => interleaved(of("query")(), headDim));
    matrix(name("attn_k"), hidden, kvHeads * headDim, () => interleaved(of("key")(), headDim));
    matrix(name("attn_v"), hidden, kvHeads * headDim, of("value"));
    matrix(name("attn_output"), heads * headDim, hidden, of("output"));
    matrix(name("ffn_gate"), hidden, ffn, of("gate"));
    matrix(name("ffn_up"), hidden, ffn, of("up"));
    matrix(name("ffn_down"), ffn, hidden, of("down"));
  }
  const numbers: Readonly<Record<string, number>> = {
    context_length: maxPositions,
    embedding_length: hidden,
    block_count: layers,
    feed_forward_length: ffn,
    "attention.head_count": heads,
    "attention.head_count_kv": kvHeads,
    "rope.dimension_count": headDim,
    vocab_size: vocabulary,
  };
  const names = Array.from({ length: vocabulary }, (_, i) => (i < 3 ? ["<unk>", "<s>", "</s>"][i] : tokenName(i)));
  const head = new Gguf()
    .u32(0x46554747)
    .u32(3)
    .u64(tensors.length)
    .u64(Object.keys(numbers).length + 9);
  head.text("general.architecture").u32(kinds.text).text("llama");
  for (const [key, value] of Object.entries(numbers)) head.text(`llama.${key}`).u32(kinds.u32).u32(value);
  head.text("llama.attention.layer_norm_rms_epsilon").u32(kinds.f32).f32(norm.epsilon);
  head.text("llama.rope.freq_base").u32(kinds.f32).f32(10_000);
  head.text("tokenizer.ggml.model").u32(kinds.text).text("llama");
  head.text("tokenizer.ggml.tokens").u32(kinds.array).u32(kinds.text).u64(vocabulary);
  for (const token of names) head.text(token);
  head.text("tokenizer.ggml.scores").u32(kinds.array).u32(kinds.f32).u64(vocabulary);
  for (let i = 0; i < vocabulary; i++) head.f32(-i);
  head
    .text("tokenizer.ggml.token_type")
    .u32(kinds.array)
    .u32(kinds.u32 + 1)
    .u64(vocabulary);
  for (let i = 0; i < vocabulary; i++) head.u32(i < 3 ? 3 : i < 259 ? 6 : 1);
  head.text("tokenizer.ggml.bos_token_id").u32(kinds.u32).u32(1);
  head.text("tokenizer.ggml.eos_token_id").u32(kinds.u32).u32(2);
  let offset = 0;
  const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;
  for (const { name, shape } of tensors) {
    head.text(name).u32(shape.length);
    for (const length of shape) head.u64(length);
    head.u32(0).u64(offset);
    offset += aligned(4 * shape.reduce((product, length) => product * length));
  }
  function* all() {
    const start = head.bytes;
    yield Buffer.concat([start], aligned(start.length));
    for (const { read } of tensors) {
      const data = read();
      yield Buffer.concat([Buffer.from(data.buffer, data.byteOffset, data.byteLength)], aligned(data.byteLength));
    }
  }
  await pipeline(Readable.from(all()), createWriteStream(path));
}

const tokenName = (i: number) => (i < 259 ? `<0x${(i - 3).toString(16).toUpperCase().padStart(2, "0")}>` : `token${i}`);

/** Transposes [inputs, outputs] to [outputs, inputs]. */
function transposed(matrix: Float32Array, inputs: number, outputs: number): Float32Array {
  const result = new Float32Array(matrix.length);
  for (let input = 0, i = 0; input < inputs; input++)
    for (let output = 0; output < outputs; output++, i++) result[output * inputs + input] = matrix[i];
  return result;
}

/**
 * Reorders rows for rotary embeddings: llama.cpp rotates adjacent dimensions of a head, this engine those half a head apart.
 */
function interleaved(matrix: Float32Array, headDim: number): Float32Array {
  const half = headDim / 2;
  const result = new Float32Array(matrix.length);
  for (let i = 0; i < matrix.length; i += headDim)
    for (let pair = 0; pair < half; pair++) {
      result[i + 2 * pair] = matrix[i + pair];
      result[i + 2 * pair + 1] = matrix[i + half + pair];
    }
  return result;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

async function best(times: number, act: () => Promise<number>): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < times; i++) fastest = Math.min(fastest, await act());
  return fastest;
}

/** The prompt of a sequence, the same for both engines. */
const promptOf = (sequence: number, vocabulary: number) =>
  Array.from({ length: context }, (_, at) => 259 + ((at * 7919 + sequence * 13) % (vocabulary - 259)));

class LlamaCppEngine {
  readonly #model: LlamaModel;
  readonly #vocabulary: number;

  constructor(model: LlamaModel, vocabulary: number) {
    this.#model = model;
    this.#vocabulary = vocabulary;
  }

  async speeds(threads: number): Promise<Speeds> {
    const all = await this.#model.createContext({
      sequences: batches[batches.length - 1],
      contextSize: context + decodedTokens + 8,
      batchSize: context,
      threads: { ideal: threads, min: threads },
    });
    try {
      const sequences = Array.from({ length: batches[batches.length - 1] }, () => all.getSequence());
      const [first] = sequences;
      const prompt = promptOf(0, this.#vocabulary);
      const prefill = async (from: number) => {
        await first.clearHistory();
        if (from > 0) await first.evaluateWithoutGeneratingNewTokens(prompt.slice(0, from));
        return timed(() => first.evaluateWithoutGeneratingNewTokens(prompt.slice(from)));
      };
      const prefillMs = await best(4, () => prefill(0));
      const cachedMs = await best(4, () => prefill(448));
      const decoded: number[] = [];
      for (const batch of batches) decoded.push(await this.#decode(sequences.slice(0, batch)));
      return { prefillMs, cachedMs, decoded };
    } finally {
      await all.dispose();
    }
  }

  /** Tokens/s of a batch of sequences, one token of each per step. */
  async #decode(sequences: readonly LlamaSequence[]): Promise<number> {
    const streams: AsyncGenerator<number>[] = [];
    for (const [i, sequence] of sequences.entries()) {
      await sequence.clearHistory();
      const prompt = promptOf(i, this.#vocabulary);
      await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(0, -1));
      streams.push(sequence.evaluate(prompt.slice(-1), { temperature: 0, yieldEogToken: true }));
    }
    const step = () => timed(() => Promise.all(streams.map((stream) => stream.next())));
    await step();
    const ms = await best(decodedTokens, step);
    await Promise.all(streams.map((stream) => stream.return(undefined)));
    return sequences.length / (ms / 1e3);
  }

  /** Greedy output tokens of a prompt. */
  async tokens(count: number): Promise<number[]> {
    const all = await this.#model.createContext({ contextSize: context + count + 8, batchSize: context });
    const found: number[] = [];
    for await (const token of all
      .getSequence()
      .evaluate(promptOf(0, this.#vocabulary), { temperature: 0, yieldEogToken: true })) {
      found.push(token);
      if (found.length === count) break;
    }
    await all.dispose();
    return found;
  }
}

async function ours(config: DecoderConfig): Promise<Speeds> {
  const engine = await openEngine(config, context + 1, batches[batches.length - 1]);
  const { executor } = engine;
  try {
    const ms = async (parts: readonly [number, number][], times: number) =>
      (await stepMs(executor, stepOf(engine, parts), times)).wholeMs;
    const prefillMs = await ms([[0, context]], 6);
    const cachedMs = await ms([[448, context]], 10);
    const decoded: number[] = [];
    for (const batch of batches) {
      await executor.executeStep(
        stepOf(
          engine,
          Array.from({ length: batch }, () => [0, context]),
        ),
      );
      const step = Array.from({ length: batch }, (): [number, number] => [context, context + 1]);
      decoded.push(batch / ((await ms(step, decodedTokens)) / 1e3));
    }
    return { prefillMs, cachedMs, decoded };
  } finally {
    await executor.close();
  }
}

/** Greedy output tokens of the same prompt with this engine. */
async function ourTokens(config: DecoderConfig, count: number): Promise<number[]> {
  const engine = await openEngine(config, context + count);
  const known = promptOf(0, config.vocabulary);
  for (let from = 0; known.length < context + count; ) {
    const step = stepOf(engine, [[from, known.length]]);
    const { logits } = await engine.executor.executeStep({ ...step, inputIds: Int32Array.from(known.slice(from)) });
    from = known.length;
    known.push(logits.indexOf(Math.max(...logits)));
  }
  await engine.executor.close();
  return known.slice(context);
}

async function compare(): Promise<Measurement[] | string> {
  const library = await llamaCpp();
  if (!library) return "node-llama-cpp is not installed: npm install --no-save --ignore-scripts node-llama-cpp@3";
  const config = randomConfig("anchors");
  const folder = mkdtempSync(join(tmpdir(), "kvlab-llama-"));
  try {
    const modelPath = join(folder, "model.gguf");
    await writeGguf(modelPath, config, randomWeights(config, 1));
    const llama = await library.getLlama({
      gpu: false,
      build: "never",
      skipDownload: true,
      logLevel: library.LlamaLogLevel.error,
    });
    const model = await llama.loadModel({ modelPath });
    const theirs = new LlamaCppEngine(model, config.vocabulary);
    const count = 16;
    const [here, there] = [await ourTokens(config, count), await theirs.tokens(count)];
    const firstDifference = here.findIndex((token, i) => token !== there[i]);
    const found: { ours: Speeds; theirs: Speeds }[] = [];
    const counts = Array.from({ length: Math.min(2, availableParallelism()) }, (_, i) => i + 1);
    for (let round = 0; round < rounds; round++) {
      const all: Speeds[] = [];
      for (const threads of counts) all.push(await theirs.speeds(threads));
      found.push({ ours: await ours(config), theirs: fastest(all) });
    }
    await model.dispose();
    return [
      {
        name: "equal greedy tokens after a prompt",
        value: firstDifference < 0 ? count : firstDifference,
        unit: `of ${count}`,
      },
      ...figuresOf(found),
    ];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The best value of each measurement over all thread counts. */
const fastest = (all: readonly Speeds[]): Speeds => ({
  prefillMs: Math.min(...all.map(({ prefillMs }) => prefillMs)),
  cachedMs: Math.min(...all.map(({ cachedMs }) => cachedMs)),
  decoded: batches.map((_, i) => Math.max(...all.map(({ decoded }) => decoded[i]))),
});

function figuresOf(found: readonly { readonly ours: Speeds; readonly theirs: Speeds }[]): Measurement[] {
  const pair = (
    name: string,
    unit: string,
    of: (speeds: Speeds) => number,
    faster: (ours: number, theirs: number) => number,
  ): Measurement[] => [
    { name: `${name}, kvlab`, value: median(found.map((one) => of(one.ours))), unit },
    { name: `${" ".repeat(name.length)}  llama.cpp`, value: median(found.map((one) => of(one.theirs))), unit },
    { name: "  times as fast", value: median(found.map((one) => faster(of(one.ours), of(one.theirs)))), unit: "×" },
  ];
  const rate = (ours: number, theirs: number) => ours / theirs;
  const time = (ours: number, theirs: number) => theirs / ours;
  return [
    ...pair(`prefill of ${context}`, "tokens/s", ({ prefillMs }) => context / (prefillMs / 1e3), rate),
    ...pair("64 after 448 cached", "ms", ({ cachedMs }) => cachedMs, time),
    ...batches.flatMap((batch, i) => pair(`decode, batch ${batch}`, "tokens/s", ({ decoded }) => decoded[i], rate)),
  ];
}

const found = await compare();
console.log(JSON.stringify(typeof found === "string" ? [{ name: found, value: 0, unit: "" }] : found));
process.exit();
