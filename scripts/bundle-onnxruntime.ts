// Puts ONNX Runtime's CPU files into the compiled package, without an install script; the last step of `npm pack`.
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const from = path("node_modules/onnxruntime-node");
const to = path("dist/onnxruntime");

/** Providers for GPUs, which the CPU engine never loads, and a second copy of the macOS library. */
const isUnused = (name: string) => /DirectML\.dll$|dxcompiler\.dll$|dxil\.dll$|\.\d+\.\d+\.dylib$|\.map$/.test(name);

await rm(to, { recursive: true, force: true });
for (const folder of ["dist", "bin"])
  for (const entry of await readdir(`${from}/${folder}`, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || isUnused(entry.name)) continue;
    const file = `${entry.parentPath}/${entry.name}`;
    const copy = `${to}${file.slice(from.length)}`;
    await mkdir(dirname(copy), { recursive: true });
    await cp(file, copy);
  }

const read = async (file: string) => JSON.parse(await readFile(file, "utf8"));
const { name, version, license, main, types } = await read(`${from}/package.json`);
const { "onnxruntime-common": common } = (await read(path("package.json"))).dependencies;
if (common !== version) throw new Error(`onnxruntime-common is ${common} in package.json, expected ${version}`);
await writeFile(`${to}/package.json`, `${JSON.stringify({ name, version, license, main, types }, undefined, 2)}\n`);
await cp(path("scripts/onnxruntime-license.txt"), `${to}/LICENSE`);

for (const file of ["onnxruntime.js", "onnxruntime.d.ts"].map((compiled) => path(`dist/engine/cpu/${compiled}`))) {
  const text = await readFile(file, "utf8");
  const bundled = text.replace('"onnxruntime-node"', '"../../onnxruntime/dist/index.js"');
  if (bundled === text) throw new Error(`${file} does not import "onnxruntime-node"`);
  await writeFile(file, bundled);
}
