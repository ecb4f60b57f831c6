import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

// The packed package in an empty folder, installed with npm's default settings: neither this checkout's .npmrc nor its
// node_modules. The npm registry must be reachable.

const root = process.cwd();
const folder = mkdtempSync(join(tmpdir(), "kvlab-package-"));
const home = join(folder, "home");
const minutes = 60_000;

/** The environment without the settings that `npm test` passes on; where the registry is stays. */
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
