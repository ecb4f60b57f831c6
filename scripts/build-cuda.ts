// Compiles the CUDA kernels to engine/cuda/kernels/kernels.fatbin: machine code for sm_80 and sm_90a, and PTX of compute_80. Prints
// registers, shared memory, spills and occupancy of each kernel on sm_90a.
//   npm run build:cuda              compiles if the sources have changed
//   npm run build:cuda -- --table   also writes the table into docs/cuda.md
//   npm run build:cuda -- --package copies sources and fatbin to dist; without nvcc only the sources, from which NVRTC compiles
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildFatbin, findNvcc, type KernelResources, occupancyOf } from "./kernel-resources.ts";

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const kernels = path("engine/cuda/kernels");
const document = path("docs/cuda.md");
const [begin, end] = ["<!-- kernels: begin -->\n", "<!-- kernels: end -->"];

const print = (text: string) => process.stdout.write(`${text}\n`);
const grouped = (count: number) => count.toLocaleString("en-US");

function rowOf(kernel: KernelResources): string {
  const { name, threads, registers, sharedBytes, spillBytes } = kernel;
  const { blocks, warps } = occupancyOf(kernel);
  const cells = [`\`${name}\``, threads, registers, grouped(sharedBytes), spillBytes, blocks, `${warps} of 64`];
  return `| ${cells.join(" | ")} |`;
}

function tableOf(resources: readonly KernelResources[]): string {
  const head = [
    "kernel",
    "threads",
    "registers",
    "shared memory, bytes",
    "spills, bytes",
    "blocks per SM",
    "warps per SM",
  ];
  const rule = `| --- |${" ---: |".repeat(head.length - 1)}`;
  return [`| ${head.join(" | ")} |`, rule, ...resources.map(rowOf)].join("\n");
}

function writeTable(table: string): void {
  const text = readFileSync(document, "utf8");
  const [before, after] = [text.indexOf(begin), text.indexOf(end)];
  if (before < 0 || after < before) throw new Error(`${document} has no ${begin.trim()} … ${end}`);
  writeFileSync(document, `${text.slice(0, before)}${begin}\n${table}\n\n${text.slice(after)}`);
}

function copyToPackage(): void {
  const to = path("dist/engine/cuda/kernels");
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(kernels)) copyFileSync(`${kernels}/${name}`, `${to}/${name}`);
}

const isPackaging = process.argv.includes("--package");
const nvcc = findNvcc();
if (nvcc) {
  const resources = buildFatbin(nvcc, kernels);
  const table = tableOf(resources);
  if (process.argv.includes("--table")) writeTable(table);
  if (!isPackaging) print(table);
  const spilling = resources.filter(({ spillBytes }) => spillBytes > 0);
  if (spilling.length > 0) {
    print(`Registers are spilled on sm_90a by ${spilling.map(({ name }) => name).join(", ")}`);
    process.exitCode = 1;
  }
} else if (isPackaging) {
  print("No nvcc: the package has no compiled CUDA kernels; NVRTC compiles them from source");
} else {
  const { NVCC } = process.env;
  const searched = NVCC ? `NVCC=${NVCC} does not run` : "nvcc is not in PATH and CUDA_HOME/bin";
  print(`${searched}: install the CUDA toolkit 13, or set NVCC=/path/to/nvcc`);
  process.exitCode = 2;
}
if (isPackaging) copyToPackage();
