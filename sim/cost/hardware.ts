import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { type Efficiency, rtx4090, rtxPro6000 } from "./efficiency.ts";
import type { Link } from "./links.ts";
import type { ComputeType } from "./model-shape.ts";

/** The data sheet of one device: peak rates. An engine reaches a share of them, see `Efficiency`. */
export interface Hardware {
  readonly name: string;
  readonly source: string;
  /** Memory in bytes, as the driver reports it. */
  readonly memoryBytes: number;
  readonly memoryBytesPerS: number;
  /** Dense matrix operations per second, with 32-bit accumulation. */
  readonly flops: Readonly<Record<ComputeType, number>>;
  /** Bandwidth per direction of the link to the host, and of the links to the other devices of its machine. */
  readonly hostBytesPerS: number;
  readonly linkBytesPerS: number;
  /** The links between its devices, if collectives over them were measured. */
  readonly link?: Link;
  /** Streaming multiprocessors, compute units, or cores: each computes one tile of a matrix at a time. */
  readonly units: number;
  /** The last-level cache. */
  readonly cacheBytes: number;
  /**
   * The rows of a tile in its attention kernels: the queries of one head of a sequence (`head`: FlashAttention-2), of all heads
   * that share a KV head (`group`: FlashAttention-3 on Hopper and later, ROCm's Triton kernels), or a single query (`query`). It
   * decides the cost of decodes in a step with prefill.
   */
  readonly attentionTile: "head" | "group" | "query";
  /** The rates that an engine achieves, if its operators were measured (sim/profiles). */
  readonly measured?: Efficiency;
}

const mebi = 2 ** 20;
const giga = 1e9;
const tera = 1e12;

const pcie4 = 32 * giga;
const pcie5 = 64 * giga;

const devices: readonly Hardware[] = [
  {
    name: "a100-40gb",
    source: "NVIDIA A100 data sheet (2021): SXM4 40 GB",
    memoryBytes: 40_960 * mebi,
    memoryBytesPerS: 1555 * giga,
    flops: { fp32: 19.5 * tera, bf16: 312 * tera, fp8: 312 * tera },
    hostBytesPerS: pcie4,
    linkBytesPerS: 300 * giga,
    link: "nvlink3",
    units: 108,
    cacheBytes: 40 * mebi,
    attentionTile: "head",
  },
  {
    name: "a100-80gb",
    source: "NVIDIA A100 data sheet (2021): SXM4 80 GB",
    memoryBytes: 81_920 * mebi,
    memoryBytesPerS: 2039 * giga,
    flops: { fp32: 19.5 * tera, bf16: 312 * tera, fp8: 312 * tera },
    hostBytesPerS: pcie4,
    linkBytesPerS: 300 * giga,
    link: "nvlink3",
    units: 108,
    cacheBytes: 40 * mebi,
    attentionTile: "head",
  },
  {
    name: "h100",
    source: "NVIDIA H100 data sheet (2023): SXM5; dense is half of its figure with sparsity",
    memoryBytes: 81_559 * mebi,
    memoryBytesPerS: 3350 * giga,
    flops: { fp32: 67 * tera, bf16: 989.5 * tera, fp8: 1979 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: 450 * giga,
    link: "nvlink4",
    units: 132,
    cacheBytes: 50 * mebi,
    attentionTile: "group",
  },
  {
    name: "h200",
    source: "NVIDIA H200 data sheet (2024): SXM5; dense is half of its figure with sparsity",
    memoryBytes: 143_771 * mebi,
    memoryBytesPerS: 4800 * giga,
    flops: { fp32: 67 * tera, bf16: 989.5 * tera, fp8: 1979 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: 450 * giga,
    link: "nvlink4",
    units: 132,
    cacheBytes: 50 * mebi,
    attentionTile: "group",
  },
  {
    name: "b200",
    source: "NVIDIA DGX B200 data sheet (2024), an eighth of it",
    memoryBytes: 183_359 * mebi,
    memoryBytesPerS: 8000 * giga,
    flops: { fp32: 75 * tera, bf16: 2250 * tera, fp8: 4500 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: 900 * giga,
    link: "nvlink5",
    units: 148,
    cacheBytes: 126 * mebi,
    attentionTile: "group",
  },
  {
    name: "l40s",
    source: "NVIDIA L40S data sheet (2023); memory with error correction",
    memoryBytes: 46_068 * mebi,
    memoryBytesPerS: 864 * giga,
    flops: { fp32: 91.6 * tera, bf16: 362 * tera, fp8: 733 * tera },
    hostBytesPerS: pcie4,
    linkBytesPerS: pcie4,
    link: "pcie4",
    units: 142,
    cacheBytes: 96 * mebi,
    attentionTile: "head",
  },
  {
    name: "rtx-4090",
    source: "NVIDIA Ada GPU architecture (2022), appendix A: results of 32 bits",
    memoryBytes: 24_564 * mebi,
    memoryBytesPerS: 1008 * giga,
    flops: { fp32: 82.6 * tera, bf16: 165.2 * tera, fp8: 330.3 * tera },
    hostBytesPerS: pcie4,
    linkBytesPerS: pcie4,
    link: "pcie4-host",
    units: 128,
    cacheBytes: 72 * mebi,
    attentionTile: "head",
    measured: rtx4090,
  },
  {
    name: "rtx-pro-6000",
    source:
      "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet (2025): 4 PFLOPS of FP4 with sparsity, an eighth of it",
    memoryBytes: 97_887 * mebi,
    memoryBytesPerS: 1597 * giga,
    flops: { fp32: 120 * tera, bf16: 500 * tera, fp8: 1000 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: pcie5,
    link: "pcie5",
    units: 188,
    cacheBytes: 128 * mebi,
    attentionTile: "head",
    measured: rtxPro6000,
  },
  {
    name: "rtx-pro-6000-workstation",
    source: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition data sheet (2025)",
    memoryBytes: 97_887 * mebi,
    memoryBytesPerS: 1792 * giga,
    flops: { fp32: 125 * tera, bf16: 503.8 * tera, fp8: 1007.6 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: pcie5,
    link: "pcie5",
    units: 188,
    cacheBytes: 128 * mebi,
    attentionTile: "head",
  },
  {
    name: "mi300x",
    source: "AMD Instinct MI300X data sheet (2023)",
    memoryBytes: 196_592 * mebi,
    memoryBytesPerS: 5300 * giga,
    flops: { fp32: 163.4 * tera, bf16: 1307.4 * tera, fp8: 2614.9 * tera },
    hostBytesPerS: pcie5,
    linkBytesPerS: 448 * giga,
    units: 304,
    cacheBytes: 256 * mebi,
    attentionTile: "group",
  },
  {
    name: "cpu",
    source: "two cores of a server, measured: DRAM 54 GB/s, fp32 matrices 389 GFLOP/s (ONNX Runtime)",
    memoryBytes: 16 * 1024 * mebi,
    memoryBytesPerS: 54 * giga,
    flops: { fp32: 389 * giga, bf16: 389 * giga, fp8: 389 * giga },
    hostBytesPerS: 54 * giga,
    linkBytesPerS: 54 * giga,
    units: 2,
    cacheBytes: 32 * mebi,
    attentionTile: "query",
  },
];

const aliases: Readonly<Record<string, string>> = {
  a100: "a100-80gb",
  "a100-80g": "a100-80gb",
  "a100-40g": "a100-40gb",
  "h100-sxm": "h100",
  "h200-sxm": "h200",
  rtx4090: "rtx-4090",
  "4090": "rtx-4090",
  rtxpro6000: "rtx-pro-6000",
  "rtx-pro-6000-server": "rtx-pro-6000",
};

export const hardwareNames: readonly string[] = devices.map(({ name }) => name);

/**
 * Name of a device as `hardwareNamed` has it, or else its driver's name in lower case: "NVIDIA H100 80GB HBM3" is "h100",
 * "NVIDIA T4" is "t4".
 */
export function hardwareNameOf(driverName: string): string {
  const words = driverName.toLowerCase().split(/[^a-z0-9]+/);
  const known = hardwareNames.filter((name) => name.split("-").every((word) => words.includes(word)));
  const longest = known.sort((a, b) => b.length - a.length)[0];
  return longest ?? words.filter((word) => word !== "nvidia" && word !== "").join("-");
}

/** A device by its name, in any case. @throws InputError that lists the known devices */
export function hardwareNamed(name: string): Hardware {
  const canonical = name.toLowerCase().replaceAll(/[ _]/g, "-");
  const known = Object.hasOwn(aliases, canonical) ? aliases[canonical] : canonical;
  const device = devices.find((one) => one.name === known);
  if (device) return device;
  const near = nearest(canonical, [...hardwareNames, ...Object.keys(aliases)]);
  throw new InputError(
    `no GPU "${name}": ${near ? `did you mean "${near}"?` : `expected one of ${hardwareNames.join(", ")}`}`,
  );
}
