import type { Hardware } from "./hardware.ts";

/** Share of the links' bandwidth that collectives reach, and the latency of one of them in nanoseconds. */
export interface LinkRates {
  readonly share: number;
  readonly latencyNs: number;
}

/** Time of an all-reduce of `bytes` over a ring of `devices`: each of them sends and receives its share twice. */
export function allReduceNs(
  hardware: Hardware,
  devices: number,
  bytes: number,
  { share, latencyNs }: LinkRates,
): number {
  if (devices === 1) return 0;
  return latencyNs + (2 * ((devices - 1) / devices) * bytes) / ((hardware.linkBytesPerS * share) / 1e9);
}
