import type { Hardware } from "./hardware.ts";
import { linkTimes, type NcclTimes, type PeerKernel, type Points } from "./links.ts";
import { Curve } from "./profile/curve.ts";

/** Rates of links without measurements: the share of their bandwidth, and the latency of a collective in nanoseconds. */
export interface LinkRates {
  readonly share: number;
  readonly latencyNs: number;
}

/**
 * Times of collectives among `devices` of one machine, in nanoseconds: interpolated between measured messages if there are
 * measurements of the link, else by bandwidth and latency. With one device everything takes no time.
 *
 * NCCL's collectives are compared by the bytes that each device sends: 2 (n − 1) / n of the tensor in an all-reduce,
 * n − 1 contributions in an all-gather. A number of devices that was not measured takes the times of the next lower one that was
 * (or of the lowest), for as many bytes.
 */
export class Collectives {
  readonly devices: number;
  readonly #peer: readonly { readonly upToBytes: number; readonly curve: Curve; readonly leastNs: number }[];
  /** By bytes that each device sends. */
  readonly #nccl: (sentBytes: number) => number;
  readonly #pair: (sentBytes: number) => number;
  /** Bandwidth of the links in bytes per ns, which only an all-reduce in the switch (NVLink SHARP) exceeds. */
  readonly #peak: number;

  /** `rates`: ignores the measurements, if there are any. */
  constructor(hardware: Hardware, devices: number, rates?: LinkRates) {
    const { link, linkBytesPerS } = hardware;
    this.devices = devices;
    this.#peak = linkBytesPerS / 1e9;
    if (link === undefined || rates !== undefined) {
      const { share, latencyNs } = rates ?? unmeasured;
      this.#peer = [];
      this.#nccl = (bytes) => latencyNs + bytes / ((linkBytesPerS * share) / 1e9);
      this.#pair = this.#nccl;
      return;
    }
    const { peer, nccl } = linkTimes[link];
    this.#peer = kernelsOf(peer.filter((kernel) => kernel.devices === devices));
    const curve = ncclOf(nccl, devices);
    const pair = ncclOf(nccl, 2);
    this.#nccl = (bytes) => curve.at(bytes);
    this.#pair = (bytes) => pair.at(bytes);
  }

  /** Sum of one tensor of `bytes` per device, the result on every device; a larger tensor is never faster. */
  allReduceNs(bytes: number): number {
    const n = this.devices;
    if (n === 1 || bytes === 0) return 0;
    let leastNs = 0;
    for (const kernel of this.#peer) {
      if (bytes <= kernel.upToBytes) return Math.max(leastNs, kernel.curve.at(bytes));
      leastNs = kernel.leastNs;
    }
    return Math.max(leastNs, this.#nccl((2 * (n - 1) * bytes) / n));
  }

  /** Concatenation of `bytes` from each device, on every device. */
  allGatherNs(bytes: number): number {
    if (this.devices === 1 || bytes === 0) return 0;
    const sent = (this.devices - 1) * bytes;
    return Math.max(this.#nccl(sent), sent / this.#peak);
  }

  /** Sum of one tensor per device, of which every device gets `bytes`: the reverse of an all-gather, with the same time. */
  reduceScatterNs(bytes: number): number {
    return this.allGatherNs(bytes);
  }

  /** Every device sends `bytes` to each other device. */
  allToAllNs(bytes: number): number {
    return this.allGatherNs(bytes);
  }

  /** One device sends `bytes` to another one. */
  pointToPointNs(bytes: number): number {
    return bytes === 0 ? 0 : Math.max(this.#pair(bytes), bytes / this.#peak);
  }
}

/** Typical values. */
const unmeasured: LinkRates = { share: 0.8, latencyNs: 10_000 };

const curveOf = (points: Points, sent = 1) =>
  new Curve(
    points.map(([bytes]) => sent * bytes),
    points.map(([, us]) => 1e3 * us),
  );

/** `leastNs`: the time of the largest tensor of the kernel, which larger tensors take at least. */
function kernelsOf(kernels: readonly PeerKernel[]) {
  let leastNs = 0;
  return kernels.map(({ upToBytes, points }) => {
    const curve = curveOf(points);
    leastNs = Math.max(leastNs, curve.at(upToBytes));
    return { upToBytes, curve, leastNs };
  });
}

function ncclOf(all: readonly NcclTimes[], devices: number): Curve {
  const { collective, points, devices: n } = all.findLast((one) => one.devices <= devices) ?? all[0];
  return curveOf(points, collective === "all-reduce" ? (2 * (n - 1)) / n : n - 1);
}
