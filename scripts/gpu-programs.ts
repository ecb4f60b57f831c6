// Bundles gpu:check and gpu:bench, so that they run from one folder without a checkout.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url));

/** Packages that are not bundled: native ones, of which only koffi is packed, and the bundler. */
const external = ["koffi", "onnxruntime-node", "onnxruntime-common", "tokenizers", "esbuild"];

/** Writes check.js, bench.js and the CUDA engine's worker, which is a file of its own beside them, into `program`. */
export async function bundlePrograms(program: string): Promise<void> {
  await build({
    entryPoints: [path("bench/gpu/check.ts"), path("bench/gpu/bench.ts"), path("engine/cuda/worker.ts")],
    ...{ outdir: program, entryNames: "[name]", bundle: true, minifySyntax: true, minifyWhitespace: true },
    // Modules that are imported dynamically stay apart: the backend on the CPU needs packages that are not packed.
    ...{ platform: "node", target: "node20", format: "esm", splitting: true, external, logLevel: "error" },
    // Bundled packages in CommonJS format call require.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
  });
  const { name, version, type, dependencies } = JSON.parse(readFileSync(path("package.json"), "utf8"));
  writeFileSync(join(program, "package.json"), JSON.stringify({ name, version, type, dependencies }));
}
