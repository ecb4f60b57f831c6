import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { backendNames } from "../engine/backends.ts";

interface Cruise {
  summary: { totalCruised: number; violations: { from: string; to: string; rule: { name: string } }[] };
}

const folders = ["core", "policies", "traces", "laws", "sim", "engine", "viz", "lab", "cli", "bench", "scripts"].filter(
  existsSync,
);

function cruise(root: string): Cruise["summary"] {
  const program = join(process.cwd(), "node_modules/dependency-cruiser/bin/dependency-cruise.mjs");
  const args = [program, "--config", ".dependency-cruiser.cjs", "--output-type", "json", ...folders, "index.ts"];
  const { stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
  return (JSON.parse(stdout) as Cruise).summary;
}

const copy = mkdtempSync(join(tmpdir(), "kvlab-folders-"));
afterAll(() => rmSync(copy, { recursive: true }));

test("imports point one way and never in a circle", () => {
  const { totalCruised, violations } = cruise(process.cwd());
  expect(totalCruised).toBeGreaterThan(50);
  expect(violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`)).toEqual([]);
});

test("an import that points the wrong way is found, and so is a circle", () => {
  for (const name of [...folders, "index.ts", ".dependency-cruiser.cjs", "tsconfig.json", "package.json"]) {
    cpSync(name, join(copy, name), { recursive: true });
  }
  symlinkSync(join(process.cwd(), "node_modules"), join(copy, "node_modules"));
  writeFileSync(
    join(copy, "core/planted.ts"),
    'import { lru } from "../policies/eviction/lru.ts";\nexport const planted = lru;\n',
  );
  writeFileSync(join(copy, "traces/planted.ts"), 'export { lru } from "../policies/eviction/lru.ts";\n');
  writeFileSync(join(copy, "core/trace/planted.ts"), 'export { Replica } from "../replica/replica.ts";\n');
  writeFileSync(join(copy, "laws/planted.ts"), 'export { lru } from "../policies/eviction/lru.ts";\n');
  writeFileSync(join(copy, "core/one.ts"), 'export { two } from "./two.ts";\nexport const one = 1;\n');
  writeFileSync(join(copy, "core/two.ts"), 'import { one } from "./one.ts";\nexport const two = () => one;\n');
  writeFileSync(join(copy, "bench/planted.ts"), 'export { print } from "../cli/output/print.ts";\n');
  writeFileSync(join(copy, "cli/planted.ts"), 'export { findBrowser } from "../scripts/browser.ts";\n');
  writeFileSync(join(copy, "engine/planted.ts"), 'export { cpuBackend } from "./cpu/backend.ts";\n');
  const rules = cruise(copy).violations.map(({ rule, from }) => `${rule.name}: ${from}`);
  expect(rules).toContain("core-imports-nothing-of-ours: core/planted.ts");
  expect(rules).toContain("traces-imports-only-core: traces/planted.ts");
  expect(rules).toContain("core-trace-imports-nothing-above-it: core/trace/planted.ts");
  expect(rules).toContain("laws-imports-only-core: laws/planted.ts");
  expect(rules).toContain("only-the-registry-imports-a-backend: engine/planted.ts");
  expect(rules).toContain("only-tests-import-the-command-line: bench/planted.ts");
  expect(rules).toContain("only-tests-import-the-scripts: cli/planted.ts");
  expect(rules.some((rule) => rule.startsWith("no-cycles: core/one.ts"))).toBe(true);
});

const clocked = ["core", "engine", "lab", "policies", "sim", "traces"];

/** Sources that read a clock or unseeded random numbers, except the clock itself. */
const nondeterministic = (root: string): string[] =>
  clocked
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
    )
    .filter((file) => file.endsWith(".ts") && file !== "engine/clock.ts")
    .filter((file) => /\b(performance|Date)\.now\b|\bMath\.random\b/.test(readFileSync(join(root, file), "utf8")));

test("only engine/clock.ts reads a clock, and nothing reads unseeded random numbers", () => {
  expect(nondeterministic(process.cwd())).toEqual([]);
  writeFileSync(join(copy, "sim/planted.ts"), "export const now = () => performance.now();\n");
  expect(nondeterministic(copy)).toContain("sim/planted.ts");
});

/** Sources outside a backend's folder that name it, except its packaging scripts, its benchmarks, and a hardware preset of the same name. */
function namingBackend(root: string): string[] {
  const names = new RegExp(`\\b(${backendNames.join("|")})\\b`);
  const packaging = [
    "bundle-onnxruntime.ts",
    "build-cuda.ts",
    "kernel-resources.ts",
    "gpu-pack.ts",
    "gpu-programs.ts",
  ].map((name) => `scripts/${name}`);
  const exempt = ["engine/backends.ts", ...packaging, "sim/cost/hardware.ts"];
  const sources = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  );
  return sources
    .filter((file) => file.endsWith(".ts") && !exempt.includes(file))
    .filter((file) => !file.startsWith("bench/gpu/"))
    .filter((file) => !backendNames.some((name) => file.startsWith(`engine/${name}/`)))
    .filter((file) => names.test(readFileSync(join(root, file), "utf8")));
}

test("no source outside a backend's folder names the backend", () => {
  expect(namingBackend(process.cwd())).toEqual([]);
  writeFileSync(join(copy, "lab/planted.ts"), 'export const isEngine = (target: string) => target === "cpu";\n');
  expect(namingBackend(copy)).toContain("lab/planted.ts");
});
