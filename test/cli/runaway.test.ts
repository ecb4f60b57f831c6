import { execFile } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fromBuild, kvlab, newFolder } from "./program.ts";

const fills = "const list: unknown[] = []; for (;;) list.push(1);";
const loops = "for (;;);";
/** An endless loop that leaves the processor to other tests. */
const waits = "for (const cell = new Int32Array(new SharedArrayBuffer(4)); ; ) Atomics.wait(cell, 0, 0, 20);";

/** An eviction policy whose methods begin with these statements. */
const policy = ({ top = "", create = "", victim = "", hit = "", prepare = "" }) => `${top}
  const leak: unknown[] = [];
  export default { name: "own", create() {
    ${create}
    const queue: number[] = [];
    return {
      add: (entry: number) => void queue.push(entry),
      remove: (entry: number) => void queue.splice(queue.indexOf(entry), 1),
      hit() { ${hit} },
      victim() { ${victim} return queue[0]; },
      ${prepare && `prepare() { ${prepare} },`}
    };
  } };`;

const replay = (...options: string[]) => ["replay", ...options, "--out", "saved"];
const eviction = replay("--eviction", "mine.ts");

/** The one line on stderr; nothing else is printed or written. */
async function lineOf(code: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string> {
  const folder = newFolder();
  writeFileSync(join(folder, "mine.ts"), code);
  const ended = await kvlab(folder, args, env);
  expect({ ...ended, files: readdirSync(folder) }).toEqual({
    code: 2,
    stdout: "",
    stderr: expect.stringMatching(/^kvlab: [^\n]+\n$/),
    files: ["mine.ts"],
  });
  return ended.stderr.slice("kvlab: ".length, -1);
}

describe.concurrent("a plug-in file that does not return ends the program with one line", () => {
  test.each([
    ["victim()", policy({ victim: loops }), eviction, /^mine\.ts: victim\(\) at request \d+/],
    ["create()", policy({ create: waits }), ["compare", "--eviction", "lru,mine.ts"], /^mine\.ts: create\(\)/],
    ["its top-level code", policy({ top: waits }), ["check", "mine.ts"], /^mine\.ts: top-level code/],
    [
      "plan() of a scheduler",
      `export default { name: "own", create: () => ({ plan() { ${waits} } }) };`,
      replay("--scheduler", "mine.ts"),
      /^mine\.ts: plan\(\) at request 0/,
    ],
    [
      "stepNs() of a cost model",
      `export default { name: "own", stepNs() { ${waits} } };`,
      replay("--target", "sim", "--cost", "mine.ts"),
      /^mine\.ts: stepNs\(\)/,
    ],
  ])("%s", { timeout: 120_000 }, async (_, code, args, call) => {
    const line = await lineOf(code, args);
    expect(line).toMatch(call);
    expect(line).toMatch(/ has not returned after 1\d s$/);
  });
});

describe("a plug-in file that allocates without end ends the program with one line", () => {
  test("in one call", { timeout: 120_000 }, async () => {
    expect(await lineOf(policy({ victim: fills.replace("1", "Array(1000).fill(0)") }), eviction)).toMatch(
      /^mine\.ts: victim\(\) at request \d+: \d+ MB added to the JavaScript heap in one call, limit 512 MB$/,
    );
  });

  test("in a call for a whole trace", { timeout: 120_000 }, async () => {
    expect(await lineOf(policy({ prepare: fills }), eviction)).toMatch(
      /^mine\.ts: prepare\(\): \d+ MB in arrays of the JavaScript heap, limit 512 MB$/,
    );
  });

  test("in many calls, of a smaller heap", { timeout: 120_000 }, async () => {
    const hit = "leak.push(Array.from({ length: 10_000 }, () => ({})));";
    const small = { NODE_OPTIONS: "--max-old-space-size=400" };
    expect(await lineOf(policy({ hit }), eviction, small)).toMatch(
      /^mine\.ts: (hit\(\) at request \d+: )?the JavaScript heap is full, \d+ of \d+ MB are in use$/,
    );
  });
});

test("a trace reader whose promise never settles ends the program with one line", async () => {
  const code = `export default { name: "own", open: () => ({ async *batches() { await new Promise(() => {}); } }) };`;
  expect(await lineOf(code, replay("mine.ts", "--format", "mine.ts"))).toBe(
    "mine.ts: batches() awaits a promise that never settles",
  );
});

describe.runIf(process.platform === "linux")("with too small an address space", () => {
  const limited = (kilobytes: number, args: readonly string[]) =>
    new Promise((resolve) => {
      const command = `ulimit -v ${kilobytes}; exec "$0" "$@"`;
      execFile("bash", ["-c", command, process.execPath, ...fromBuild(), ...args], (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      );
    });

  test("for Node, the program ends with one line", async () => {
    expect(await limited(1_200_000, ["replay", "--no-save"])).toEqual({
      code: 2,
      stdout: "",
      stderr: "kvlab: ulimit -v is 1,200,000 kB, expected at least 1,500,000\n",
    });
  });

  test("for the cache, the program ends with one line", async () => {
    expect(await limited(2_000_000, ["replay", "--blocks", "90000000", "--no-save"])).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(
        /^kvlab: not enough memory for a trace or a cache of this size: \d+ MB are in use; ulimit -v is 2,000,000 kB; --limit N reads fewer requests, --blocks N bounds the cache\n$/,
      ),
    });
  });
});
