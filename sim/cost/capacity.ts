import { InputError } from "../../core/errors.ts";
import type { Hardware } from "./hardware.ts";
import { type ModelShape, weightBytesOf } from "./model-shape.ts";

/** What an engine needs besides weights and cache: context, kernels, graphs, buffers of libraries. */
const runtimeBytes = 2 ** 30;

export interface CapacityOptions {
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel?: number;
  /** Of a device's memory that the engine may use: vLLM's `gpu_memory_utilization`. */
  readonly memoryShare: number;
  /** Tokens of the largest step. */
  readonly stepTokens?: number;
}

/**
 * Bytes of a device that are left for keys and values: what it may use, without its share of the weights, the activations
 * of the largest step (as vLLM measures by running it) and what every engine needs.
 *
 * @throws InputError if nothing is left, with the number of devices that would do.
 */
export function cacheBytes(options: CapacityOptions): number {
  const left = leftBytes(options, options.tensorParallel ?? 1);
  if (left > 0) return left;
  const { shape, hardware, tensorParallel = 1, memoryShare } = options;
  const enough = [2, 3, 4, 5, 6, 7, 8, 16, 32, 64].find(
    (devices) => devices > tensorParallel && canShare(shape, devices) && leftBytes(options, devices) > 0,
  );
  throw new InputError(
    `${shape.name} does not fit: its weights take ${gib(weightBytesOf(shape) / tensorParallel)} a device, and with what an ` +
      `engine needs besides ${gib(-left)} more than ${memoryShare} of the ${gib(hardware.memoryBytes)} of ${hardware.name}` +
      (enough === undefined ? "" : `; --tp ${enough} would do`),
  );
}

/** Whether so many devices can have equal shares of its heads: several of keys and values each, or several one of them. */
export function canShare({ heads, kvHeads }: ModelShape, devices: number): boolean {
  return heads % devices === 0 && (kvHeads % devices === 0 || devices % kvHeads === 0);
}

function leftBytes({ shape, hardware, memoryShare, stepTokens = 8192 }: CapacityOptions, devices: number): number {
  const usable = hardware.memoryBytes * memoryShare;
  return Math.floor(
    usable - weightBytesOf(shape) / devices - stepTokens * activationBytes(shape, devices) - runtimeBytes,
  );
}

/** At its widest a token is its hidden state, once before and once after a layer, and the inside of a feed-forward network. */
function activationBytes({ hidden, ffn, experts, numberBytes }: ModelShape, devices: number): number {
  const inner = Math.max(ffn, experts ? experts.ffn * (experts.active + experts.shared) : 0);
  return numberBytes * (2 * hidden + (3 * inner) / devices);
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
