import { InputError } from "../../core/errors.ts";
import type { MemoryDemand, WeightBits } from "../backend.ts";
import { ExecutorError, poolElementBytes } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { elementsOf, layerTensors, modelTensors, type TensorShape } from "../model/tensors.ts";
import { quantizedBlock } from "../onnx/quantized.ts";

/** Bytes of a model's weights in the runtime's memory. */
export function weightBytes(config: DecoderConfig, bits: WeightBits): number {
  const { hidden, vocabulary, layers, tiedEmbeddings } = config;
  const sum = (tensors: readonly TensorShape<string>[]) =>
    tensors.reduce((bytes, { tensor, shape }) => bytes + tensorBytes(isLookupTable(tensor) ? 32 : bits, shape), 0);
  // Embeddings are looked up by row and not quantized. If they are the head, too, a quantized head is a second matrix.
  const ownHead = tiedEmbeddings && bits !== 32 ? tensorBytes(bits, [hidden, vocabulary]) : 0;
  return sum(modelTensors(config)) + layers * sum(layerTensors(config)) + ownHead;
}

const isLookupTable = (tensor: string) => tensor === "embedding" || tensor === "positions";

/** A quantized matrix has a scale per block of inputs. */
function tensorBytes(bits: WeightBits, shape: readonly number[]): number {
  if (bits === 32 || shape.length === 1) return 4 * elementsOf(shape);
  const [inputs, outputs] = shape;
  return outputs * Math.ceil(inputs / quantizedBlock) * ((quantizedBlock * bits) / 8 + 4);
}

/** Bytes of a token's keys and values in the pool. */
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
  throw new InputError(`${demandText(demand)}, of ${gib(free)} of free memory`);
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

function demandText(demand: MemoryDemand): string {
  const { config, bits, blockCount, blockTokens, stepTokens } = demand;
  const step = stepTokens === undefined ? "" : ` and more for a step of ${stepTokens} tokens`;
  return (
    `${config.name} needs ${gib(weightBytes(config, bits))} for its weights and ${gib(poolBytes(demand))} for ` +
    `${blockCount} blocks of ${blockTokens} tokens${step}`
  );
}

/** Out-of-memory messages of ONNX Runtime, C++, V8 and WebAssembly. */
const outOfMemory =
  /failed to allocate|bad_alloc|allocation failed|out of memory|reaching memory limit|invalid typed array length/i;

/** Adds the memory demand to the message of an out-of-memory error; returns any other error unchanged. */
export function describeOutOfMemory(error: unknown, demand: MemoryDemand): unknown {
  if (!(error instanceof Error) || error instanceof InputError || !outOfMemory.test(error.message)) return error;
  return new ExecutorError(`out of memory: ${demandText(demand)}: ${error.message.trim()}`);
}
