import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { templates } from "../../cli/init/templates.ts";

// The packed package in an empty folder, installed with npm's default settings: neither this checkout's .npmrc nor its
// node_modules. The npm registry must be reachable.

const root = process.cwd();
const folder = mkdtempSync(join(tmpdir(), "kvlab-package-"));
const home = join(folder, "home");
const minutes = 60_000;

/** The environment without the settings that `npm test` passes on, except the registry. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) =>
      !/^(npm_|onnxruntime|FORCE_COLOR|NODE_OPTIONS)/i.test(name) ||
      /^npm_config_(registry|cafile|proxy|https_proxy|noproxy|cache)$/i.test(name),
  ),
);

function ran(command: string, args: readonly string[], cwd = home): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env: environment,
    encoding: "utf8",
    timeout: 4 * minutes,
    maxBuffer: 1 << 26,
  });
  if (status === 0) return stdout;
  const isUnreachable = /ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|network/i.test(stderr);
  const what = isUnreachable ? "failed; it needs the npm registry" : "failed";
  throw new Error(
    `${command} ${args.join(" ")} ${what} (exit code ${status}):\n${error?.message ?? ""}${stderr}${stdout}`,
  );
}

const installed = (...args: string[]) => ran(join(home, "node_modules/.bin/kvlab"), args);

beforeAll(() => {
  ran("npm", ["pack", "--pack-destination", folder], root);
  ran("mkdir", [home], folder);
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  ran("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", join(folder, tarball)]);
}, 8 * minutes);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the package is at most 80 MB and nothing in it or below it fetches ONNX Runtime", () => {
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  expect(statSync(join(folder, tarball)).size).toBeLessThan(80e6);
  expect(readdirSync(join(home, "node_modules"))).not.toContain("onnxruntime-node");
  const { scripts } = JSON.parse(readFileSync(join(home, "node_modules/kvlab/dist/onnxruntime/package.json"), "utf8"));
  expect(scripts).toBeUndefined();
});

test("the installed program states its version and compares policies over built-in data", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  expect(installed("--version")).toBe(`${version}\n`);
  expect(installed("compare")).toContain("belady");
});

test("the installed program runs the CPU engine", () => {
  const request = { timestamp: 0, input_length: 600, output_length: 4, hash_ids: [1, 2] };
  const later = { ...request, timestamp: 10, hash_ids: [1, 3] };
  writeFileSync(join(home, "trace.jsonl"), `${JSON.stringify(request)}\n${JSON.stringify(later)}\n`);
  const run = ["replay", "trace.jsonl", "--target", "cpu", "--model", "random:tiny", "--blocks", "200", "--json"];
  const { target, cache } = JSON.parse(installed(...run));
  expect(target).toBe("cpu");
  expect(cache.lookups).toBe(2);
  expect(cache.hitTokens).toBe(512);
});

describe("TypeScript programs and plug-in files compile against the installed package's types, and run", () => {
  const sources = join(home, "src");
  const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));
  const programs = examples.filter((name) => ["library.ts", "engine.ts"].includes(name));

  beforeAll(() => {
    mkdirSync(sources);
    for (const name of examples) copyFileSync(join(root, "examples", name), join(sources, name));
    for (const file of ["README.md", "docs/policies.md"])
      codeBlocks(file).forEach((text, i) => {
        writeFileSync(join(sources, `${basename(file, ".md").toLowerCase()}-${i}.ts`), text);
      });
    for (const kind of Object.keys(templates))
      ran(join(home, "node_modules/.bin/kvlab"), ["init", kind, kind], sources);
    writeFileSync(join(home, "package.json"), JSON.stringify({ ...packageOf(home), type: "module" }));
    // As a user would, but for the folder of @types/node.
    const compilerOptions = {
      ...{ target: "ES2023", module: "NodeNext", strict: true, skipLibCheck: false },
      ...{ rootDir: "src", outDir: "out", types: ["node"], typeRoots: [join(root, "node_modules/@types")] },
    };
    writeFileSync(join(home, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["src"] }));
    ran(process.execPath, [join(root, "node_modules/typescript/lib/tsc.js"), "-p", "."]);
  }, 4 * minutes);

  test("the example programs run: replay, simulation, comparison and CPU engine", () => {
    expect(ran(process.execPath, ["out/library.js"])).toMatch(/^hit ratio by token 0\.\d+\nmean TTFT in ms \d/);
    const lines = ran(process.execPath, ["out/engine.js"]).trim().split("\n");
    expect(lines.map((line) => line.split(" ").slice(0, 3))).toEqual([
      ["cache", "cheapest", "in-order"],
      ["sim", "cheapest", "in-order"],
      ["cpu", "cheapest", "in-order"],
    ]);
    // The same policies decide the same on every target.
    expect(new Set(lines.map((line) => /hit tokens (\d+)/.exec(line)?.[1])).size).toBe(1);
  });

  test("every file that exports an eviction policy runs in one comparison", () => {
    const files = readdirSync(sources).filter((name) => {
      const text = readFileSync(join(sources, name), "utf8");
      return /\bEvictionPlugin\b/.test(text) && /^export /m.test(text);
    });
    expect(files).toEqual(expect.arrayContaining(examples.filter((name) => !programs.includes(name))));
    const evictions = files.map((name) => `./src/${name}`);
    const compared = ["compare", "example", "--limit", "50", "--eviction", evictions.join(), "--json"];
    const { runs } = JSON.parse(installed(...compared));
    const seen = new Set(runs.map(({ policy }: { policy: { evictionFile?: string } }) => policy.evictionFile));
    expect(evictions.filter((file) => !seen.has(file))).toEqual([]);
  });
});

/** The TypeScript blocks of a document that are a whole program or plug-in file. */
const codeBlocks = (file: string): string[] =>
  [...readFileSync(join(root, file), "utf8").matchAll(/^```ts\n(.*?)^```/gms)]
    .map(([, text]) => text)
    .filter((text) => text.includes('from "kvlab"'));

const packageOf = (folder: string) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
