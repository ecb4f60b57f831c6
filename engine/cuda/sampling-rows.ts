import type { DeviceSampling } from "../executor.ts";

/** Bytes of `SamplingRow` of sampling.cuh: temperature, topP, minP, topK, seed (64 bits), position, padding. */
export const samplingRowBytes = 32;

const mostTopK = 2 ** 31 - 1;

/** Writes the parameters of one row at a byte offset. */
export function writeSamplingRow(buffer: ArrayBuffer, offset: number, sampling: DeviceSampling): void {
  const row = new DataView(buffer, offset, samplingRowBytes);
  row.setFloat32(0, sampling.temperature, true);
  row.setFloat32(4, sampling.topP, true);
  row.setFloat32(8, sampling.minP, true);
  row.setInt32(12, Math.min(sampling.topK, mostTopK), true);
  row.setInt32(16, sampling.seed | 0, true);
  row.setInt32(20, Math.floor(sampling.seed / 2 ** 32), true);
  row.setInt32(24, sampling.position, true);
  row.setInt32(28, 0, true);
}
