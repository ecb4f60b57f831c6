import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

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
  writeFileSync(join(copy, "cli/planted.ts"), 'export { recordedRequests } from "../scripts/recorded-run.ts";\n');
  const rules = cruise(copy).violations.map(({ rule, from }) => `${rule.name}: ${from}`);
  expect(rules).toContain("core-imports-nothing-of-ours: core/planted.ts");
  expect(rules).toContain("traces-imports-only-core: traces/planted.ts");
  expect(rules).toContain("core-trace-imports-nothing-above-it: core/trace/planted.ts");
  expect(rules).toContain("laws-imports-only-core: laws/planted.ts");
  expect(rules).toContain("only-tests-import-the-command-line: bench/planted.ts");
  expect(rules).toContain("only-tests-import-the-scripts: cli/planted.ts");
  expect(rules.some((rule) => rule.startsWith("no-cycles: core/one.ts"))).toBe(true);
});
