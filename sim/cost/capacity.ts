import { InputError } from "../../core/errors.ts";
import type { Hardware } from "./hardware.ts";
import { deviceWeightBytes, type ModelShape } from "./model-shape.ts";

/** Memory of the runtime: context, kernels, graphs, library buffers. */
const runtimeBytes = 2 ** 30;

export interface CapacityOptions {
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel?: number;
  /** Replicas that share the routed experts. */
  readonly dataParallel?: number;
  /** Share of a device's memory that the engine may use: vLLM's `gpu_memory_utilization`. */
  readonly memoryShare: number;
  /** Tokens of the largest step. */
  readonly stepTokens?: number | undefined;
}

/**
 * Bytes of a device that are left for KV: the usable share, less its part of the weights, the activations of the largest
 * step (which vLLM measures by running it) and the runtime.
 *
 * @throws InputError if nothing is left; the message names a sufficient `--tp` if there is one
 */
export function cacheBytes(options: CapacityOptions): number {
  const left = leftBytes(options, options.tensorParallel ?? 1);
  if (left > 0) return left;
  const { shape, hardware, tensorParallel = 1, dataParallel = 1, memoryShare } = options;
  const enough = [2, 3, 4, 5, 6, 7, 8, 16, 32, 64].find(
    (devices) => devices > tensorParallel && canShare(shape, devices) && leftBytes(options, devices) > 0,
  );
  throw new InputError(
    `${shape.name} does not fit: its weights are ${gib(deviceWeightBytes(shape, tensorParallel, dataParallel))} per device; with activations and ` +
      `runtime they exceed ${memoryShare} of the ${gib(hardware.memoryBytes)} of ${hardware.name} by ${gib(-left)}` +
      (enough === undefined ? "" : `; --tp ${enough} is enough`),
  );
}

/** Whether `devices` can have equal shares of the heads: several KV heads per device, or several devices per KV head. */
export function canShare({ heads, kvHeads }: ModelShape, devices: number): boolean {
  return heads % devices === 0 && (kvHeads % devices === 0 || devices % kvHeads === 0);
}

function leftBytes(
  { shape, hardware, dataParallel = 1, memoryShare, stepTokens = 8192 }: CapacityOptions,
  devices: number,
): number {
  const usable = hardware.memoryBytes * memoryShare;
  const weights = deviceWeightBytes(shape, devices, dataParallel);
  return Math.floor(usable - weights - stepTokens * activationBytes(shape, devices) - runtimeBytes);
}

/** Largest activations of a token: the hidden state before and after a layer, and the inner vectors of a feed-forward network. */
function activationBytes({ hidden, ffn, experts, numberBytes }: ModelShape, devices: number): number {
  const inner = Math.max(ffn, experts ? experts.ffn * (experts.active + experts.shared) : 0);
  return numberBytes * (2 * hidden + (3 * inner) / devices);
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
