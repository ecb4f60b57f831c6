import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { modelNames } from "../../bench/gpu/expected.ts";
import { driverVariable } from "../../engine/cuda/driver.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-pack-"));
const packed = join(folder, "packed");
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(() => {
  // Without nvcc, whose build takes minutes: the emulated driver has the kernels.
  const env = { ...process.env, NVCC: "none", KVLAB_TRACES: folder };
  execFileSync(process.execPath, ["--import", "tsx", "scripts/gpu-pack.ts", packed, "--no-node"], { env });
}, 120_000);

test("the packed folder has programs, kernels, expected logits and the script that starts them", () => {
  const files = readdirSync(packed, { recursive: true, encoding: "utf8" });
  for (const file of ["check.js", "bench.js", "worker.js", "oracle.py", "kernels/kernels.cu", "package.json"])
    expect(files).toContain(`program/${file}`);
  expect(readdirSync(join(packed, "expected"))).toHaveLength(modelNames.length);
  expect(files).toContain("run.sh");
  expect(files.filter((file) => file.includes("onnxruntime-node"))).toEqual([]);
});

test("a folder that cannot be created is one line", () => {
  const target = join(packed, "run.sh", "folder");
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", "scripts/gpu-pack.ts", target, "--no-node"],
    { encoding: "utf8" },
  );
  expect(status).toBe(1);
  expect(stderr).toMatch(/^gpu:pack: E\w+: [^\n]+\n$/);
});

test("run.sh refuses anything but check and bench", () => {
  const { status, stderr } = spawnSync(join(packed, "run.sh"), ["verify"], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 2, stderr: "run.sh: expected check or bench\n" });
});

describe.skipIf(process.platform === "win32")("run.sh with a packed Node", () => {
  /** Runs it with these programs in PATH, besides the basic ones of a shell. */
  function unpacked(programs: Readonly<Record<string, string>>) {
    const [here, bin] = [mkdtempSync(join(folder, "run-")), mkdtempSync(join(folder, "bin-"))];
    copyFileSync("scripts/gpu-run.sh", join(here, "run.sh"));
    writeFileSync(join(here, "commit"), "none");
    writeFileSync(join(here, "node.xz"), "#!/bin/sh\necho packed $1\n");
    for (const name of ["dirname", "mkdir", "rm", "mv", "chmod", "cat"])
      symlinkSync(execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim(), join(bin, name));
    for (const [name, text] of Object.entries(programs))
      writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    const env = { PATH: bin, OUT: folder, KVLAB_WORK: join(here, "work") };
    const { status, stdout, stderr } = spawnSync("/bin/sh", [join(here, "run.sh"), "check"], { env, encoding: "utf8" });
    return { status, stderr, ran: stdout.replaceAll(here, "HERE") };
  }
  const noLzma = { python3: "exit 1" };

  test("unpacks it with xz where Python has no lzma", () => {
    const ended = unpacked({ ...noLzma, xz: 'cat "$2"' });
    expect(ended).toEqual({ status: 0, stderr: "", ran: "packed HERE/program/check.js\n" });
  });

  test("runs the machine's Node where nothing unpacks it", () => {
    const ended = unpacked({ ...noLzma, node: "echo own $1" });
    expect(ended).toEqual({ status: 0, stderr: "", ran: "own HERE/program/check.js\n" });
  });

  test("names what is missing where there is no Node either", () => {
    const line = "no Node: install Python 3 with lzma, or xz, which unpack the packed one, or Node 20 or later in PATH";
    expect(unpacked(noLzma)).toEqual({ status: 2, stderr: `run.sh: ${line}\n`, ran: "" });
  });
});

describe.runIf(canEmulate)("the packed programs", () => {
  let driver: string;
  beforeAll(async () => {
    driver = await emulatorLibrary();
  }, buildTimeoutMs);

  const run = (...args: readonly string[]) =>
    spawnSync(join(packed, "run.sh"), args, {
      cwd: folder,
      env: { ...process.env, OUT: folder, [driverVariable]: driver },
      encoding: "utf8",
    });

  test("check logits, hits and a preset on the emulated device, in a folder without other packages", () => {
    for (const [only, count] of [
      ["tiny-bloom", 2],
      ["verify lmdeploy", 1],
    ] as const) {
      const { status, stderr, stdout } = run("check", "--only", only, "--requests", "24");
      expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: "" });
      const { checks, commit } = JSON.parse(readFileSync(join(folder, "gpu-check.json"), "utf8"));
      expect(checks).toHaveLength(count);
      expect(commit).toBe(readFileSync(join(packed, "commit"), "utf8"));
    }
  });

  test("measure a tiny shape on the emulated device", () => {
    const { status, stderr, stdout } = run("bench", "--shape", "tiny");
    expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: "" });
    expect(readdirSync(join(folder, "gpu-bench"), { recursive: true }).sort()).toEqual([
      ...["bench.json", "cpu-random-tiny", "cpu-random-tiny/meta.yaml", "cpu-random-tiny/tp1"],
      ...["attention", "dense", "per_sequence"].map((name) => `cpu-random-tiny/tp1/${name}.csv.gz`),
    ]);
  });
});
