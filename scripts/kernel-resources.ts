import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Resources of a kernel on sm_90a. */
export interface KernelResources {
  readonly name: string;
  /** Threads of a block: the launch bound. */
  readonly threads: number;
  readonly registers: number;
  /** Static and dynamic shared memory of a block. */
  readonly sharedBytes: number;
  /** Registers stored to and loaded from local memory. */
  readonly spillBytes: number;
}

/** Compute capabilities of the machine code. Other devices compile the PTX. */
const targets = [
  "arch=compute_80,code=sm_80",
  "arch=compute_90a,code=sm_90a",
  "arch=compute_80,code=compute_80",
] as const;
const options = [
  "-fatbin",
  "-std=c++17",
  "-Xptxas",
  "-v",
  "--threads",
  "2",
  ...targets.flatMap((one) => ["-gencode", one]),
];

/** nvcc: NVCC, or nvcc in PATH or in CUDA_HOME/bin; undefined: none. */
export function findNvcc(): string | undefined {
  const { NVCC, CUDA_HOME = "/usr/local/cuda" } = process.env;
  if (NVCC === "none") return undefined;
  const candidates = NVCC ? [NVCC] : ["nvcc", join(CUDA_HOME, "bin/nvcc")];
  return candidates.find((nvcc) => spawnSync(nvcc, ["--version"], { stdio: "ignore" }).status === 0);
}

const cache = fileURLToPath(new URL("../node_modules/.cache/kvlab", import.meta.url));
const isSource = (name: string) => /\.cuh?$/.test(name);

/** Text that changes with the sources, the compiler and its options. */
function hashOf(nvcc: string, folder: string): string {
  const hash = createHash("sha256")
    .update(JSON.stringify(options))
    .update(execFileSync(nvcc, ["--version"]));
  for (const name of readdirSync(folder).filter(isSource).sort())
    hash.update(name).update(readFileSync(join(folder, name)));
  return hash.digest("hex").slice(0, 16);
}

/**
 * Compiles `folder`/kernels.cu to `folder`/kernels.fatbin, unless a build of the same sources is cached.
 *
 * @throws Error if nvcc fails
 */
export function buildFatbin(nvcc: string, folder: string): KernelResources[] {
  mkdirSync(cache, { recursive: true });
  const hash = hashOf(nvcc, folder);
  const [fatbin, log] = [join(cache, `kernels-${hash}.fatbin`), join(cache, `kernels-${hash}.log`)];
  if (!existsSync(fatbin)) {
    const own = `${fatbin}.${process.pid}`;
    const source = join(folder, "kernels.cu");
    const { status, stderr, stdout } = spawnSync(nvcc, [...options, "-o", own, source], { encoding: "utf8" });
    if (status !== 0) throw new Error(`${nvcc} failed: ${stderr}${stdout}`);
    writeFileSync(log, `${stderr}${stdout}`);
    renameSync(own, fatbin);
  }
  const target = join(folder, "kernels.fatbin");
  writeFileSync(`${target}.${process.pid}.tmp`, readFileSync(fatbin));
  renameSync(`${target}.${process.pid}.tmp`, target);
  return resourcesIn(readFileSync(log, "utf8"), threadsOf(nvcc, folder));
}

/** Launch bound of each kernel, from the preprocessed source. */
function threadsOf(nvcc: string, folder: string): ReadonlyMap<string, number> {
  const args = ["-E", "-std=c++17", "-arch=sm_90a", join(folder, "kernels.cu")];
  const source = execFileSync(nvcc, args, { encoding: "utf8", maxBuffer: 1 << 28 }).replaceAll(/^#.*$/gm, "");
  const bounds = /launch_bounds(?:__)?\s*\(\s*(\d+)[^{;]*?\)\)?\)\s*(\w+)\s*\(/g;
  return new Map([...source.matchAll(bounds)].map(([, threads, name]) => [name, Number(threads)]));
}

/** Threads of kernels without a launch bound, which run with any number. */
const freeThreads = 256;

/** Dynamic shared memory of the prefill kernels: PrefillShared::bytes. */
function dynamicBytes(name: string): number {
  const headDim = Number(/^attention_prefill_d(\d+)$/.exec(name)?.[1] ?? 0);
  return headDim ? (headDim > 128 ? 3 : 2) * 64 * (headDim + 8) * 2 + 512 : 0;
}

function resourcesIn(log: string, threads: ReadonlyMap<string, number>): KernelResources[] {
  const entry =
    /entry function '(\w+)' for 'sm_90a'[\s\S]*?(\d+) bytes spill stores, (\d+) bytes spill loads\s*ptxas info\s*: Used (\d+) registers([^\n]*)/g;
  return [...log.matchAll(entry)]
    .map(([, name, stores, loads, registers, rest]) => ({
      name,
      threads: threads.get(name) ?? freeThreads,
      registers: Number(registers),
      sharedBytes: Number(/(\d+) bytes smem/.exec(rest)?.[1] ?? 0) + dynamicBytes(name),
      spillBytes: Number(stores) + Number(loads),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Limits of a multiprocessor of compute capability 9.0, and the units in which registers and shared memory are allocated. */
const limits = {
  registers: 65_536,
  warps: 64,
  blocks: 32,
  sharedBytes: 233_472,
  reservedBytes: 1024,
  unitRegisters: 256,
};

/** Blocks and warps of a kernel that a multiprocessor runs at once. */
export function occupancyOf({ threads, registers, sharedBytes }: KernelResources): { blocks: number; warps: number } {
  const warps = Math.ceil(threads / 32);
  const ofWarp = Math.ceil((registers * 32) / limits.unitRegisters) * limits.unitRegisters;
  const byRegisters = Math.floor(Math.floor(limits.registers / ofWarp) / warps);
  const byShared = Math.floor(limits.sharedBytes / (sharedBytes + limits.reservedBytes));
  const blocks = Math.min(limits.blocks, Math.floor(limits.warps / warps), byRegisters, byShared);
  return { blocks, warps: blocks * warps };
}
