// Builds the emulated CUDA driver: one shared library of the kernels, compiled for the CPU, and the driver functions that run them.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findCompiler, findSanitizer } from "../../../../scripts/compiler.ts";

/** Time limit of a hook that builds the library. */
export const buildTimeoutMs = 300_000;

export interface EmulatorOptions {
  /** Folder of the kernels; that of the engine by default. */
  readonly kernels?: string;
  /** Builds with AddressSanitizer. A process that loads the library must have `sanitizerEnvironment`. */
  readonly sanitize?: boolean;
  /** Builds the attention kernels of one head dimension only, with less optimisation: takes a third of the time. */
  readonly headDimension?: number;
}

/**
 * Whether there is a g++ for the emulation. Without one, tests that need it are skipped; in CI they fail.
 */
export const canEmulate = findCompiler() !== undefined;
if (!canEmulate) {
  const text = "the CUDA emulation needs g++: install it, or set CXX=/path/to/it";
  if (process.env["CI"]) throw new Error(text);
  process.stderr.write(`Tests are skipped: ${text}\n`);
}

const folder = fileURLToPath(new URL(".", import.meta.url));
export const kernelFolder = fileURLToPath(new URL("../../../../engine/cuda/kernels", import.meta.url));
const cache = fileURLToPath(new URL("../../../../node_modules/.cache/kvlab", import.meta.url));

/** Names and launch bounds of the kernels in preprocessed sources. @throws Error if a kernel's declaration is not recognised */
function kernelsIn(source: string): { readonly name: string; readonly threads: string }[] {
  const declaration = /extern "C"\s+__global__\s+void\s+(?:__launch_bounds__\(([^;{]*?)\)\s+)?(\w+)\(\s*\w/g;
  const kernels = [...source.matchAll(declaration)].map(([, bounds, name]) => {
    return { name, threads: bounds?.split(",")[0] ?? "1024" };
  });
  const count = source.split("__global__").length - 1;
  if (kernels.length === count) return kernels;
  throw new Error(`${count} functions are __global__, ${kernels.length} are extern "C" __global__ void`);
}

const warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"];
// Products and sums are rounded separately, so that results are the same on CPUs with and without fused multiply-add.
const flags = ["-x", "c++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", ...warnings];

/** Does not block, so that several libraries are built at once. */
async function run(compiler: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(compiler, args, { maxBuffer: 1 << 26 });
  return stdout;
}

/** Options of a build with one head dimension, which runs briefly: least work for the compiler. */
function definesOf({ headDimension, sanitize }: EmulatorOptions): string[] {
  return headDimension ? [`-DONLY_HEAD_DIMENSION=${headDimension}`, sanitize ? "-O1" : "-Og"] : [];
}

function hashOf(options: EmulatorOptions, compiler: string): string {
  const hash = createHash("sha256").update(JSON.stringify([compiler, flags, options.sanitize, definesOf(options)]));
  for (const from of [folder, options.kernels ?? kernelFolder])
    for (const name of readdirSync(from).sort())
      if (/\.(h|cpp|cuh?)$/.test(name)) hash.update(name).update(readFileSync(join(from, name)));
  return hash.digest("hex").slice(0, 16);
}

async function build(options: EmulatorOptions, compiler: string, target: string): Promise<void> {
  const { kernels = kernelFolder, sanitize } = options;
  const own = `${target}.${process.pid}.tmp`;
  mkdirSync(own, { recursive: true });
  try {
    const defines = definesOf(options);
    const include = ["-I", folder, "-I", kernels, "-I", own, ...defines];
    const list = ["-DKVLAB_LIST_KERNELS", "-include", join(folder, "cuda-emulator.h"), join(kernels, "kernels.cu")];
    const source = await run(compiler, [...flags, "-E", "-P", ...include, ...list]);
    const lines = kernelsIn(source).map(({ name, threads }) => `KERNEL(${name}, (${threads}))\n`);
    writeFileSync(join(own, "kernel-list.inc"), lines.join(""));
    const sanitizer = sanitize ? ["-fsanitize=address", "-g1"] : [];
    await run(compiler, [
      ...flags,
      ...sanitizer,
      "-shared",
      ...include,
      join(folder, "driver.cpp"),
      "-o",
      join(own, "library"),
    ]);
    renameSync(join(own, "library"), target);
  } finally {
    rmSync(own, { recursive: true });
  }
}

/**
 * Path of the library; it is built if no build of the same sources exists.
 *
 * @throws Error if there is no g++, or if it fails
 */
export async function emulatorLibrary(options: EmulatorOptions = {}): Promise<string> {
  const compiler = findCompiler();
  if (!compiler) throw new Error("no g++ for the CUDA emulation");
  const target = join(cache, `cuda-emulation-${hashOf(options, compiler)}.so`);
  mkdirSync(cache, { recursive: true });
  // An older lock is of a process that died.
  const lock = `${target}.lock`;
  while (!existsSync(target)) {
    try {
      mkdirSync(lock);
    } catch {
      const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (age > buildTimeoutMs) rmSync(lock, { recursive: true, force: true });
      await sleep(100);
      continue;
    }
    try {
      if (!existsSync(target)) await build(options, compiler, target);
    } finally {
      rmSync(lock, { recursive: true, force: true });
    }
  }
  return target;
}
/** Environment of a process that loads a library built with `sanitize`. */
export function sanitizerEnvironment(): Record<string, string> {
  const library = findSanitizer();
  if (!library) throw new Error("g++ has no AddressSanitizer (libasan)");
  return { LD_PRELOAD: library, ASAN_OPTIONS: "detect_leaks=0:detect_stack_use_after_return=0" };
}
