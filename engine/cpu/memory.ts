import { InputError } from "../../core/errors.ts";
import type { MemoryDemand } from "../backend.ts";
import { ExecutorError, poolElementBytes } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { elementsOf, layerTensors, modelTensors, type TensorShape } from "../model/tensors.ts";
import { quantizedBlock, type WeightBits } from "../onnx/quantized.ts";

/** Bytes of a model's weights as the runtime has them. */
export function weightBytes(config: DecoderConfig, bits: WeightBits): number {
  const { hidden, vocabulary, layers, tiedEmbeddings } = config;
  const sum = (tensors: readonly TensorShape<string>[]) =>
    tensors.reduce((bytes, { tensor, shape }) => bytes + tensorBytes(isLookedUp(tensor) ? 32 : bits, shape), 0);
  // Embeddings are rows to look up. Where they are the head, too, and that is rounded, it is a matrix of its own.
  const ownHead = tiedEmbeddings && bits !== 32 ? tensorBytes(bits, [hidden, vocabulary]) : 0;
  return sum(modelTensors(config)) + layers * sum(layerTensors(config)) + ownHead;
}

const isLookedUp = (tensor: string) => tensor === "embedding" || tensor === "positions";

/** Of a rounded matrix each block of inputs has a scale. */
function tensorBytes(bits: WeightBits, shape: readonly number[]): number {
  if (bits === 32 || shape.length === 1) return 4 * elementsOf(shape);
  const [inputs, outputs] = shape;
  return outputs * Math.ceil(inputs / quantizedBlock) * ((quantizedBlock * bits) / 8 + 4);
}

/** Bytes of the pool that a token's keys and values take. */
export function tokenBytes({ layers, kvHeads, headDim }: DecoderConfig): number {
  return 2 * layers * kvHeads * headDim * poolElementBytes.float32;
}

/** Memory that this process may use now. */
export const availableBytes = (): number => process.availableMemory();

const poolBytes = ({ config, blockCount, blockTokens }: MemoryDemand) => blockCount * blockTokens * tokenBytes(config);

/** @throws InputError if memory is too small for weights and pool */
export function checkFits(demand: MemoryDemand): void {
  const free = availableBytes();
  if (weightBytes(demand.config, demand.bits) + poolBytes(demand) <= free) return;
  throw new InputError(`${wanted(demand)}, of ${gib(free)} of free memory`);
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

function wanted(demand: MemoryDemand): string {
  const { config, bits, blockCount, blockTokens, stepTokens } = demand;
  const step = stepTokens === undefined ? "" : ` and more for a step of ${stepTokens} tokens`;
  return (
    `${config.name} needs ${gib(weightBytes(config, bits))} for its weights and ${gib(poolBytes(demand))} for ` +
    `${blockCount} blocks of ${blockTokens} tokens${step}`
  );
}

/** As ONNX Runtime, C++, V8 and WebAssembly say it. */
const outOfMemory =
  /failed to allocate|bad_alloc|allocation failed|out of memory|reaching memory limit|invalid typed array length/i;

/** The same error, but one of memory says what it was wanted for. */
export function withDemand(error: unknown, demand: MemoryDemand): unknown {
  if (!(error instanceof Error) || error instanceof InputError || !outOfMemory.test(error.message)) return error;
  return new ExecutorError(`out of memory: ${wanted(demand)}: ${error.message.trim()}`);
}
