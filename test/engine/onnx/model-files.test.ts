import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { PagedDecoder } from "../../../engine/cpu/paged-decoder.ts";
import { randomWeights } from "../../../engine/model/random.ts";
import { modelFiles } from "../../../engine/onnx/model-files.ts";
import { oddConfig, opened, run, wholeTable } from "../cpu/decoders.ts";

const root = mkdtempSync(join(tmpdir(), "kvlab-files-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;
const newFolder = () => {
  const folder = join(root, String(folders++));
  mkdirSync(folder);
  return folder;
};

const config = oddConfig("llama");
const weights = randomWeights(config, 1);
const madeIn = (folder: string) => modelFiles(config, weights, { folder });

const url = (path: string) => JSON.stringify(new URL(`../../../engine/${path}`, import.meta.url).href);
/** Converts a model in argv[1] and prints the result, then the contents of the folder. */
const program = `
  import { readdirSync, writeSync } from "node:fs";
  import { randomConfig, randomWeights } from ${url("model/random.ts")};
  import { modelFiles } from ${url("onnx/model-files.ts")};
  const [folder, how] = process.argv.slice(1);
  const random = randomWeights(randomConfig("tiny"), 1);
  const stuck = () => { writeSync(1, "stuck"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); };
  const weights = how === "stuck" ? { fingerprint: random.fingerprint, model: stuck, layer: stuck } : random;
  if (how === "unprivileged" && process.getuid() === 0) process.seteuid(65534);
  const result = await modelFiles(randomConfig("tiny"), weights, { folder }).catch(({ name, message }) => name + ": " + message);
  console.log(JSON.stringify({ result, left: readdirSync(folder) }));
`;
const command = ["--import", "tsx", "--input-type=module", "--eval", program];

/** The same in a separate process. */
async function elsewhere(folder: string): Promise<{ result: string; left: string[] }> {
  const child = spawn(process.execPath, [...command, folder], { stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(await text(child.stdout)) as { result: string; left: string[] };
}

test("a path may have spaces and letters of any language", async () => {
  const folder = join(newFolder(), "mödel cache %20 模型 #1?");
  const model = await madeIn(folder);
  const decoder = await PagedDecoder.load({ model, config, blockCount: 8, blockTokens: 4, threads: 1 });
  const tokens = [1, 2, 3];
  const part = { tokens, from: 0, to: 3, table: wholeTable(1) };
  expect(await run({ config, weights, decoder }, [part])).toEqual(await run(await opened(config, 8), [part]));
  await decoder.close();
});

test("a flipped bit anywhere in the weights is detected", async () => {
  const model = await madeIn(newFolder());
  const path = join(dirname(model), "weights.bin");
  const before = readFileSync(path);
  // The first byte, padding between two tensors, the last byte.
  for (const at of [0, 41 * 36 * 4 + 1, before.length - 1]) {
    const file = await open(path, "r+");
    await file.write(Uint8Array.of(before[at] ^ 4), 0, 1, at);
    await file.close();
    expect(await madeIn(dirname(dirname(model)))).toBe(model);
    expect(readFileSync(path).equals(before)).toBe(true);
  }
});

test("the temporary folder of a killed process is removed when the next model is converted", async () => {
  const folder = newFolder();
  const child = spawn(process.execPath, [...command, folder, "stuck"], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const leftover = readdirSync(folder);
  expect(leftover).toHaveLength(1);
  // The process is still running: its folder is not removed.
  await madeIn(folder);
  expect(readdirSync(folder)).toHaveLength(2);
  child.kill("SIGKILL");
  await once(child, "exit");
  await madeIn(folder);
  expect(readdirSync(folder)).toHaveLength(2);
  await modelFiles(config, randomWeights(config, 2), { folder });
  expect(readdirSync(folder)).toHaveLength(2);
  expect(readdirSync(folder)).not.toContain(leftover[0]);
});

test("a temporary folder of another machine is removed only after a day without a write", async () => {
  const folder = newFolder();
  const model = await madeIn(folder);
  const name = dirname(model);
  const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
  const [elsewhere, here, old] = ["another", hostname(), "another"].map(
    (host, i) => `${name}.${host}.1.${id.replace("0f", `${i}f`)}`,
  );
  for (const path of [elsewhere, here, old]) mkdirSync(path);
  utimesSync(old, 1e9, 1e9);
  // A folder of another origin, whatever its name.
  mkdirSync(join(folder, "mine.1.2"));
  utimesSync(join(folder, "mine.1.2"), 1e9, 1e9);
  await modelFiles(config, randomWeights(config, 2), { folder });
  const left = readdirSync(folder);
  expect(left).toContain(elsewhere.slice(folder.length + 1));
  expect(left).toContain(here.slice(folder.length + 1));
  expect(left).toContain("mine.1.2");
  expect(left).toHaveLength(5);
});

test("processes that convert a model concurrently all succeed, and there is one folder", async () => {
  const folder = newFolder();
  const made = await Promise.all([1, 2, 3].map(() => elsewhere(folder)));
  const { left } = await elsewhere(folder);
  expect(left).toHaveLength(1);
  for (const { result } of made) expect(result).toBe(join(folder, left[0], "model.onnx"));
});

test("a folder without write permission is refused in one line and unchanged", () => {
  const folder = newFolder();
  chmodSync(folder, 0o555);
  chmodSync(root, 0o755);
  const { stdout } = spawnSync(process.execPath, [...command, folder, "unprivileged"], { encoding: "utf8" });
  const { result, left } = JSON.parse(stdout) as { result: string; left: string[] };
  expect(result.replace(/[0-9a-f]{32}/, "ID")).toBe(
    `InputError: ${folder}/ID: the model cannot be written: EACCES: permission denied`,
  );
  expect(left).toEqual([]);
});

test("a full disk is reported in one line, and the written files are removed", (context) => {
  const folder = newFolder();
  const mounted = `mount -t tmpfs -o size=256k none "$0" && exec "$@"`;
  const inOwn = ["--map-root-user", "--mount", "sh", "-c", mounted, folder];
  if (spawnSync("unshare", [...inOwn, "true"]).status !== 0) context.skip("no small file system can be mounted here");
  const { stdout } = spawnSync("unshare", [...inOwn, process.execPath, ...command, folder], { encoding: "utf8" });
  const { result, left } = JSON.parse(stdout) as { result: string; left: string[] };
  expect(result.replace(/[0-9a-f]{32}/, "ID")).toBe(
    `InputError: ${folder}/ID: the model cannot be written: ENOSPC: no space left on device`,
  );
  expect(left).toEqual([]);
});

test("a cache folder that is a file is refused in one line, with exit code 2", () => {
  const file = join(newFolder(), "file");
  writeFileSync(file, "");
  const main = fileURLToPath(new URL("../../../cli/main.ts", import.meta.url));
  const args = "replay example --target cpu --model random:tiny --limit 1 --blocks 400 --no-save --fold".split(" ");
  const env = { ...process.env, XDG_CACHE_HOME: file };
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", "tsx", main, ...args], {
    env,
    encoding: "utf8",
  });
  expect({ status, stdout, stderr: stderr.replace(/[0-9a-f]{32}/, "ID") }).toEqual({
    status: 2,
    stdout: "",
    stderr: `kvlab: ${file}/kvlab/models/ID: the model cannot be written: ENOTDIR: not a directory\n`,
  });
});
