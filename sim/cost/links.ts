/** The links between the devices of one machine. `pcie4-host` has no peer access, so that transfers pass through host memory. */
export type Link = "pcie4-host" | "pcie4" | "pcie5" | "nvlink3" | "nvlink4" | "nvlink5";

/** Measured times: bytes of a message, microseconds; ascending in both. */
export type Points = readonly (readonly [bytes: number, us: number])[];

/** An all-reduce kernel that reads the memory of the other devices, by bytes of the reduced tensor. */
export interface PeerKernel {
  readonly name: "one-shot" | "two-shot" | "multimem";
  readonly devices: number;
  /** The engine uses it for tensors of up to this size, larger than those of the kernel before it. */
  readonly upToBytes: number;
  readonly points: Points;
  readonly source: string;
}

/** NCCL's collectives among a number of devices. */
export interface NcclTimes {
  readonly devices: number;
  /** `all-reduce`: by bytes of the tensor. `all-gather`: by bytes that each device contributes. */
  readonly collective: "all-reduce" | "all-gather";
  readonly points: Points;
  readonly source: string;
}

export interface LinkTimes {
  readonly peer: readonly PeerKernel[];
  readonly nccl: readonly NcclTimes[];
}

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

const flashinfer5023 = "flashinfer-ai/flashinfer PR 5023 (bf16, hidden size 4096, 2 devices, without NVLink)";
const rtx6k = "voipmonitor/rtx6kpro, hardware";
const vllm24111 = "vllm-project/vllm PR 24111 (H100)";
const vllm42324 = "vllm-project/vllm PR 42324";
const vllm37756 =
  "vllm-project/vllm PR 37756 (B300; the table whose crossover with NCCL is the one that the text gives for 6 devices)";
const nccl1455 = "NVIDIA/nccl issue 1455 (H100: 365 to 370 GB/s of bus bandwidth with 2 to 8 devices)";

/** The same times at messages of `factor` times the size. */
const scaled = (points: Points, factor: number): Points => points.map(([bytes, us]) => [bytes * factor, us]);

/**
 * The exchange of two devices' buffers by direct reads, as measured (all-gather), with 2.9 us more: the smallest one-shot
 * all-reduce takes 6.9 us (rtx6kpro, asus-esc8000a-e13p-broadcom-switches.md), the smallest exchange 4.0 us.
 */
const pcie5OneShot: Points = [
  [8 * KiB, 6.9],
  [32 * KiB, 7.1],
  [64 * KiB, 7.7],
  [128 * KiB, 9],
  [256 * KiB, 12.1],
  [512 * KiB, 17],
  [MiB, 27.9],
  [2 * MiB, 49.1],
  [4 * MiB, 91.8],
  [8 * MiB, 178.8],
];

const pcie5Nccl: readonly NcclTimes[] = [
  {
    devices: 2,
    collective: "all-gather",
    points: [
      [8 * KiB, 8.31],
      [16 * KiB, 8.4],
      [32 * KiB, 10.68],
      [64 * KiB, 12.47],
      [128 * KiB, 16.67],
      [256 * KiB, 26.96],
      [512 * KiB, 31.62],
      [MiB, 46.57],
      [2 * MiB, 76.03],
      [4 * MiB, 135.31],
      [8 * MiB, 254.34],
      [16 * MiB, 492.25],
      [32 * MiB, 968.34],
      [64 * MiB, 1924.94],
      [128 * MiB, 3821.66],
      [256 * MiB, 7601.61],
    ],
    source: flashinfer5023,
  },
  {
    devices: 4,
    collective: "all-reduce",
    points: [
      [4 * KiB, 15.4],
      [32 * KiB, 17.6],
      [64 * KiB, 19.1],
      [128 * KiB, 28.3],
      [256 * KiB, 46.5],
      [512 * KiB, 87.1],
      [MiB, 109.2],
      [2 * MiB, 152.1],
      [32 * MiB, 1790],
    ],
    source: `${rtx6k}/asus-esc8000a-e13p-broadcom-switches.md; points above a later one left out`,
  },
  {
    devices: 8,
    collective: "all-reduce",
    points: [
      [KiB, 18],
      [8 * KiB, 18.6],
      [80 * KiB, 23.3],
      [128 * KiB, 30.9],
      [256 * KiB, 55.4],
      [512 * KiB, 79.6],
      [MiB, 129.7],
      [32 * MiB, 2645],
    ],
    source: `${rtx6k}/epyc9124-direct-attach.md; 32 MiB: 22.2 GB/s of bus bandwidth, pcie-bandwidth.md; points above a later one left out`,
  },
];

/** NVLink 4: 6 us and the bytes read from peers at 375 GB/s, which agrees with the measurements at 2, 4 and 6 devices. */
const nvlink4Peer: readonly PeerKernel[] = [
  {
    name: "one-shot",
    devices: 2,
    upToBytes: 64 * MiB,
    points: [
      [KiB, 6],
      [512 * KiB, 7],
      [64 * MiB, 185],
    ],
    source: `${vllm24111}; 64 MiB: 375 GB/s`,
  },
  {
    name: "one-shot",
    devices: 4,
    upToBytes: 512 * KiB - 1,
    points: [
      [KiB, 6],
      [512 * KiB, 10],
    ],
    source: vllm24111,
  },
  {
    name: "two-shot",
    devices: 4,
    upToBytes: 32 * MiB,
    points: [
      [512 * KiB, 17],
      [MiB, 18],
      [1.5 * MiB, 27],
      [3 * MiB, 35],
      [4 * MiB, 43],
      [32 * MiB, 157],
    ],
    source: `${vllm24111}; 32 MiB: as NCCL`,
  },
  {
    name: "one-shot",
    devices: 8,
    upToBytes: 256 * KiB,
    points: [
      [KiB, 6],
      [256 * KiB, 10.9],
    ],
    source: `${vllm24111}, from 2, 4 and 6 devices`,
  },
  {
    name: "multimem",
    devices: 8,
    upToBytes: 64 * MiB,
    points: [
      [512 * KiB, 11],
      [MiB, 14],
      [1.5 * MiB, 16],
      [2 * MiB, 18],
      [3 * MiB, 23],
      [4 * MiB, 27],
      [8 * MiB, 46],
      [16 * MiB, 87],
      [32 * MiB, 165],
      [64 * MiB, 320],
    ],
    source: `${vllm42324} (SM 9.0)`,
  },
];

const nvlink4Nccl: readonly NcclTimes[] = [
  {
    devices: 2,
    collective: "all-reduce",
    points: [
      [64 * KiB, 6],
      [2 * GiB, 5843],
    ],
    source: `NVIDIA/nccl issue 1259; ${nccl1455}`,
  },
  {
    devices: 4,
    collective: "all-reduce",
    points: [
      [512 * KiB, 17],
      [MiB, 19],
      [1.5 * MiB, 22],
      [2 * MiB, 26],
      [3 * MiB, 31],
      [4 * MiB, 37],
      [2 * GiB, 8765],
    ],
    source: `${vllm24111}; ${nccl1455}`,
  },
  {
    devices: 8,
    collective: "all-reduce",
    points: [
      [512 * KiB, 24],
      [MiB, 25],
      [1.5 * MiB, 33],
      [2 * MiB, 37],
      [3 * MiB, 44],
      [4 * MiB, 50],
      [8 * MiB, 76],
      [16 * MiB, 121],
      [32 * MiB, 195],
      [64 * MiB, 316],
      [128 * MiB, 561],
    ],
    source: `${vllm42324} (SM 9.0)`,
  },
];

/** One-shot on NVLink 5 with 6 devices, each of which reads the tensors of five others. */
const nvlink5OneShot: Points = [
  [16 * KiB, 7],
  [32 * KiB, 8],
  [128 * KiB, 8],
  [256 * KiB, 9],
  [512 * KiB, 11],
  [MiB, 17],
  [2 * MiB, 26],
  [4 * MiB, 45],
  [8 * MiB, 80],
];
/** With as many bytes read from peers. */
const nvlink5OneShotOf = (devices: number, upToBytes: number): PeerKernel => ({
  name: "one-shot",
  devices,
  upToBytes,
  points: scaled(nvlink5OneShot, 5 / (devices - 1)),
  source: `${vllm37756}, by bytes read`,
});

/** NVLink 3 has 300 of NVLink 4's 450 GB/s: a message of two thirds of the size takes as long. */
const nvlink3Share = 2 / 3;
const nvlink3Source = "NVLink 4, at two thirds of the bandwidth: not measured";

const inHalf = (nccl: readonly NcclTimes[]): NcclTimes[] =>
  nccl.map(({ points, ...rest }) => ({
    ...rest,
    points: scaled(points, 0.5),
    source: "PCIe 5, at half the bandwidth: not measured",
  }));

/**
 * Times of collectives by link, from published measurements. The kernels and their limits are those of vLLM 0.19: over PCIe its
 * own all-reduce only between two devices with peer access and up to 8 MiB, with NVLink up to a limit per number of devices
 * (`CUSTOM_ALL_REDUCE_MAX_SIZES`, `SYMM_MEM_ALL_REDUCE_MAX_SIZES` in vllm/distributed/device_communicators/all_reduce_utils.py);
 * else NCCL.
 */
export const linkTimes: Readonly<Record<Link, LinkTimes>> = {
  "pcie4-host": {
    peer: [],
    nccl: [
      {
        devices: 4,
        collective: "all-reduce",
        points: [
          [32 * KiB, 18.78],
          [64 * KiB, 25.8],
          [128 * KiB, 42.44],
          [256 * KiB, 66.25],
          [512 * KiB, 94.11],
          [MiB, 152.7],
          [2 * MiB, 271.8],
          [4 * MiB, 510.6],
          [8 * MiB, 1000.9],
          [16 * MiB, 1993.2],
          [32 * MiB, 3966.7],
          [64 * MiB, 7888.2],
        ],
        source: "tinygrad/open-gpu-kernel-modules PR 22 (RTX 4090)",
      },
    ],
  },
  pcie4: {
    peer: [
      {
        name: "one-shot",
        devices: 2,
        upToBytes: 8 * MiB,
        points: scaled(pcie5OneShot, 0.5),
        source: "PCIe 5, at half the bandwidth: not measured",
      },
    ],
    nccl: inHalf(pcie5Nccl),
  },
  pcie5: {
    peer: [
      {
        name: "one-shot",
        devices: 2,
        upToBytes: 8 * MiB,
        points: pcie5OneShot,
        source: `${flashinfer5023}; ${rtx6k}/asus-esc8000a-e13p-broadcom-switches.md`,
      },
    ],
    nccl: pcie5Nccl,
  },
  nvlink3: {
    // Without symmetric memory: 8 MiB with any number of devices.
    peer: [
      ...nvlink4Peer
        .filter(({ name }) => name !== "multimem")
        .map((kernel) => ({
          ...kernel,
          upToBytes: Math.min(kernel.upToBytes, 8 * MiB),
          points: scaled(kernel.points, nvlink3Share),
          source: nvlink3Source,
        })),
      {
        name: "two-shot",
        devices: 8,
        upToBytes: 8 * MiB,
        points: scaled(
          [
            [512 * KiB, 15],
            [MiB, 17],
            [1.5 * MiB, 20],
            [2 * MiB, 26],
            [3 * MiB, 29],
            [4 * MiB, 37],
          ],
          nvlink3Share,
        ),
        source: `${nvlink3Source} (${vllm24111}, 6 devices)`,
      },
    ],
    nccl: nvlink4Nccl.map(({ points, ...rest }) => ({
      ...rest,
      points: scaled(points, nvlink3Share),
      source: nvlink3Source,
    })),
  },
  nvlink4: { peer: nvlink4Peer, nccl: nvlink4Nccl },
  nvlink5: {
    peer: [
      nvlink5OneShotOf(2, 2 * MiB),
      {
        name: "two-shot",
        devices: 2,
        upToBytes: 8 * MiB,
        points: [
          [512 * KiB, 17],
          [MiB, 20],
          [1.5 * MiB, 21],
        ],
        source: `${vllm42324} (B200)`,
      },
      nvlink5OneShotOf(4, 2 * MiB),
      {
        name: "two-shot",
        devices: 4,
        upToBytes: 32 * MiB,
        points: [
          [2 * MiB, 27],
          [4 * MiB, 38],
          [8 * MiB, 59],
          [16 * MiB, 99],
          [32 * MiB, 177],
        ],
        source: vllm37756,
      },
      nvlink5OneShotOf(8, MiB),
      {
        name: "multimem",
        devices: 8,
        upToBytes: 128 * MiB,
        points: [
          [MiB, 18],
          [2 * MiB, 22],
          [4 * MiB, 29],
          [8 * MiB, 43],
          [16 * MiB, 72],
          [32 * MiB, 132],
          [64 * MiB, 271],
          [128 * MiB, 541],
        ],
        source: vllm37756,
      },
    ],
    nccl: [
      {
        devices: 2,
        collective: "all-reduce",
        points: [
          [512 * KiB, 13],
          [MiB, 17],
          [1.5 * MiB, 19],
        ],
        source: `${vllm42324} (B200)`,
      },
      {
        devices: 4,
        collective: "all-reduce",
        points: [
          [32 * KiB, 24],
          [128 * KiB, 26],
          [MiB, 27],
          [2 * MiB, 32],
          [4 * MiB, 46],
          [8 * MiB, 80],
          [16 * MiB, 83],
          [32 * MiB, 141],
          [64 * MiB, 219],
          [128 * MiB, 393],
        ],
        source: vllm37756,
      },
    ],
  },
};
