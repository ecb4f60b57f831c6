import { InputError } from "../../core/errors.ts";
import type { MemoryDemand } from "../backend.ts";
import { poolElementBytes } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { activationBytes } from "./buffers.ts";
import { workspaceBytes } from "./cublas.ts";
import { graphBytes } from "./graphs.ts";
import { probedDevice } from "./probe.ts";
import { weightLayout } from "./weights.ts";

/** Bytes of a model's weights on the device: always bfloat16. */
export const weightBytes = (config: DecoderConfig): number => weightLayout(config).bytes;

/** Bytes of a token's keys and values in the pool. */
export function tokenBytes({ layers, kvHeads, headDim }: DecoderConfig): number {
  return 2 * layers * kvHeads * headDim * poolElementBytes.bfloat16;
}

/** Fraction of the free memory that weights and pool may use; activations, cuBLAS and graphs use the rest. */
const usableFraction = 0.9;

/** Memory of the device that weights and pool may use now. @throws UnavailableError of one line if there is no device */
export const availableBytes = (): number => Math.floor(usableFraction * probedDevice().memory().freeBytes);

/** All memory of the device. @throws UnavailableError of one line if there is no driver or no device */
export const totalBytes = (): number => probedDevice().memory().totalBytes;

/** @throws InputError if the device's memory is too small for weights, pool, a step of one token, cuBLAS and graphs */
export function checkFits(demand: MemoryDemand): void {
  const { config, blockCount, blockTokens } = demand;
  const [weights, pool] = [weightBytes(config), blockCount * blockTokens * tokenBytes(config)];
  const size = { tokens: 1, sequences: 1, tiles: 0, decodes: 1, logits: 1, tableStride: 1, longestDecode: 1 };
  const others = activationBytes(config, size, 1) + workspaceBytes + graphBytes(config);
  const { freeBytes } = probedDevice().memory();
  if (weights + pool + others <= freeBytes) return;
  throw new InputError(
    `${config.name} needs ${gib(weights)} for its weights, ${gib(pool)} for ${blockCount} blocks of ${blockTokens} tokens and ${gib(others)} for activations, cuBLAS and graphs, of ${gib(freeBytes)} of free memory on ${probedDevice().name}`,
  );
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
