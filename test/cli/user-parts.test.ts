import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ended, fromSource, json, kvlab, newFolder, refusal, start } from "./program.ts";

// Allocators, schedulers, routers, cost models and trace readers from a file.

const short = ["example", "--limit", "60", "--blocks", "300", "--no-save"];
const simulated = [...short, "--target", "sim", "--replicas", "2"];

function folderWith(content: string): string {
  const folder = newFolder();
  writeFileSync(join(folder, "mine.ts"), content);
  return folder;
}

/** Allocates the highest free block first. */
const allocator = (allocate = "", methods = "") => `import type { AllocatorPlugin } from "kvlab";
const mine: AllocatorPlugin = { name: "highest", about: "", source: "", create(blockCount) {
  let free = Array.from({ length: blockCount }, (_, i) => i);
  return {
    get freeBlocks() { return free.length; },
    allocate(table, from, to) { ${allocate} for (let i = from; i < to; i++) table[i] = free.pop()!; },
    release(blocks, from, to) { for (let i = from; i < to; i++) free.push(blocks[i]); },
    grow(count) { for (let block = blockCount; block < count; block++) free.push(block); blockCount = count; },
    free: () => free.toReversed(),
    reset(order) { free = [...order].reverse(); }, ${methods}
  };
} };
export default mine;`;

/** Runs one request at a time, in order of arrival. */
const scheduler = (plan = "") => `import type { SchedulerPlugin } from "kvlab";
const mine: SchedulerPlugin = { name: "alone", about: "", source: "", create: () => ({
  plan(context) {
    ${plan}
    for (const sequence of [...context.running]) if (!context.schedule(sequence)) context.preempt(sequence, "recompute");
    for (let first = context.firstWaiting; first && context.running.length === 0; first = context.firstWaiting)
      if (!context.admit(first)) context.refuse(first, "does not fit");
  },
}) };
export default mine;`;

const router = (route: string) =>
  `export default { name: "mine", create: ({ replicaCount }) => ({ route(request, replicas) { ${route} } }) };`;
const cost = (stepNs: string) => `export default { name: "mine", stepNs(load) { ${stepNs} } };`;
const reader = (batches: string) => `import { TraceBuilder } from "kvlab";
export default { name: "numbers", open: (files: string[]) => ({ async *batches() { ${batches} } }) };`;
const twoRequests = `const builder = new TraceBuilder(16);
  for (const arrivalNs of [0, 1000]) builder.add({ arrivalNs, inputTokens: 40, outputTokens: 3, keys: [0, 1, 2] });
  yield builder.take();`;

describe("plug-ins from a file run", () => {
  test("an allocator, which changes no hit", async () => {
    const { policy, cache } = await json(folderWith(allocator()), ["replay", "--allocator", "./mine.ts", ...short]);
    expect(policy).toMatchObject({ allocator: "highest", allocatorFile: "./mine.ts" });
    expect(cache.hitBlocks).toBe((await json(newFolder(), ["replay", ...short])).cache.hitBlocks);
  });

  test("a scheduler, which is saved with its file", async () => {
    const folder = folderWith(scheduler());
    const args = ["replay", ...simulated.slice(0, -2).filter((word) => word !== "--no-save"), "--out", "run"];
    const { policy } = await json(folder, [...args, "--scheduler", "./mine.ts"]);
    expect(policy).toMatchObject({ scheduler: "alone", schedulerFile: "./mine.ts" });
    const { command } = JSON.parse(readFileSync(join(folder, "run/run.json"), "utf8"));
    expect(command).toContain("--scheduler ./mine.ts");
  });

  test("a router and a cost model, and two allocators side by side in a comparison", async () => {
    const alternating = await json(folderWith(router("return request.id % replicaCount;")), [
      ...["replay", ...simulated, "--router", "./mine.ts"],
    ]);
    const { cache } = await json(newFolder(), ["replay", ...simulated, "--router", "round-robin"]);
    expect(alternating.cache.hitBlocks).toBe(cache.hitBlocks);
    const constant = ["replay", ...simulated, "--cost", "./mine.ts"];
    expect((await json(folderWith(cost("return 5e6;")), constant)).simulation.cost).toBe("./mine.ts");
    const compare = ["compare", ...short.slice(0, -1), "--eviction", "lru", "--allocator", "block,./mine.ts"];
    expect((await kvlab(folderWith(allocator()), compare)).code).toBe(0);
  });

  test("a trace reader", async () => {
    const folder = folderWith(reader(twoRequests));
    writeFileSync(join(folder, "trace.txt"), "");
    const report = await json(folder, ["replay", "trace.txt", "--format", "./mine.ts", "--no-save", "--blocks", "9"]);
    expect(report.trace).toMatchObject({ format: "numbers", requests: 2, inputTokens: 80 });
    expect(report.cache.hitBlocks).toBe(3);
  });

  test("their output goes to stderr", async () => {
    const folder = folderWith(allocator(`console.log("allocating");`));
    const { code, stdout, stderr } = await kvlab(folder, ["replay", "--allocator", "./mine.ts", ...short, "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).schema).toBe("run/1");
    expect(stderr).toContain("allocating");
  });
});

describe("an error in a plug-in is one line that names the file", () => {
  test("an exception", async () => {
    const cases: [string, readonly string[], string][] = [
      [
        allocator(`throw new Error("no");`),
        ["--allocator", "./mine.ts", ...short],
        "allocate() threw at request 0: no",
      ],
      [
        scheduler(`throw new Error("no");`),
        ["--scheduler", "./mine.ts", ...simulated],
        "plan() threw at request 0: no",
      ],
      [router(`throw new Error("no");`), ["--router", "./mine.ts", ...simulated], "route() threw at request 0: no"],
      [cost(`throw new Error("no");`), ["--cost", "./mine.ts", ...simulated], "stepNs() threw: no"],
    ];
    for (const [content, args, message] of cases)
      expect(await refusal(folderWith(content), ["replay", ...args])).toBe(`./mine.ts: ${message}`);
  });

  test("a wrong result states what was found and what was expected", async () => {
    const cases: [string, readonly string[], RegExp][] = [
      [
        allocator("table[from] = 0; from++; free = free.filter((b) => b > 0 || blockCount % 2);"),
        ["--allocator", "./mine.ts", ...short],
        /allocated block 0, which is not free$/,
      ],
      [
        router("return 2;"),
        ["--router", "./mine.ts", ...simulated],
        /route\(\) returned 2 at request 0, expected a replica from 0 to 1$/,
      ],
      [
        cost("return 0.5;"),
        ["--cost", "./mine.ts", ...simulated],
        /stepNs\(\) returned 0\.5, expected a whole number of nanoseconds/,
      ],
      [
        `export default { name: "mine", create: () => ({}) };`,
        ["--scheduler", "./mine.ts", ...simulated],
        /create\(\) returned no scheduler with plan\(\)/,
      ],
      [
        `export default { name: "mine", create: () => ({}) };`,
        ["--cost", "./mine.ts", ...simulated],
        /exports an eviction policy, expected a cost model \{ name, stepNs \}/,
      ],
    ];
    for (const [content, args, message] of cases) {
      const line = await refusal(folderWith(content), ["replay", ...args]);
      expect(line).toMatch(message);
      expect(line).toMatch(/^\.\/mine\.ts: /);
    }
  });

  test("a trace reader that throws, or that yields no trace", async () => {
    for (const [batches, message] of [
      [`throw new Error("no");`, "batches() threw: no"],
      ["yield { requestCount: 1 };", "batches() yielded arrivalNs undefined, expected a column of a trace"],
    ]) {
      const folder = folderWith(reader(batches));
      writeFileSync(join(folder, "trace.txt"), "");
      expect(await refusal(folder, ["replay", "trace.txt", "--format", "./mine.ts"])).toBe(`./mine.ts: ${message}`);
    }
  });
});

describe("kvlab check runs the laws of each kind", () => {
  const checked = async (content: string) => {
    const { stdout, code, stderr } = await kvlab(folderWith(content), ["check", "./mine.ts", "--runs", "60", "--json"]);
    if (stdout === "") throw new Error(stderr);
    const { kind, laws } = JSON.parse(stdout);
    const broken = laws.filter(({ result }: { result: string }) => result === "broken");
    return { code, kind, laws: laws.length, broken: broken.map(({ name }: { name: string }) => name) };
  };

  test("correct plug-ins satisfy them", async () => {
    expect(await checked(allocator())).toMatchObject({ code: 0, kind: "allocator", broken: [] });
    expect(await checked(scheduler())).toMatchObject({ code: 0, kind: "scheduler", broken: [] });
    expect(await checked(router("return request.id % replicaCount;"))).toMatchObject({
      code: 0,
      kind: "router",
      broken: [],
    });
    expect(await checked(cost("return 1 + load.prefillTokens;"))).toMatchObject({ code: 0, kind: "cost", broken: [] });
  });

  test("faults are found", async () => {
    expect(await checked(allocator("table[to] = 1;"))).toMatchObject({ code: 1, broken: ["writes-inside"] });
    expect(await checked(allocator("", "peek: () => -1"))).toMatchObject({ code: 1, broken: ["free-list"] });
    expect(await checked(scheduler("if (context.waitingCount > 2) return;"))).toMatchObject({
      code: 1,
      broken: ["no-stall"],
    });
    expect(await checked(router("return request.session;"))).toMatchObject({ code: 1, broken: ["in-range"] });
    expect(await checked(cost("return 1 + Math.floor(Math.random() * 1e6);"))).toMatchObject({
      code: 1,
      broken: ["determinism", "no-hidden-inputs"],
    });
    expect(await checked(cost("for (;;);"))).toMatchObject({ code: 1, broken: ["calls-return"] });
  });
});

describe("the laws of a trace reader", () => {
  const reader = (line: string, batches = "yield builder.take();") => `import { readFileSync } from "node:fs";
import { TraceBuilder, TraceError } from "kvlab";
let readings = 0;
export default { name: "mine", open: ([file]) => ({ async *batches() {
  const builder = new TraceBuilder(16);
  readings++;
  for (const [i, text] of readFileSync(file, "utf8").split("\\n").entries()) {
    if (text === "") continue;
    const number = Number(text);
    ${line}
  }
  ${batches}
} }) };`;
  const fails = `if (Number.isNaN(number)) throw new TraceError(\`\${file}:\${i + 1}: expected a number\`);`;
  const add = "builder.add({ arrivalNs: number, inputTokens: 16, outputTokens: 1, keys: [builder.requestCount] });";

  test.each([
    [`${fails} ${add}`, [], ""],
    [add, ["bad-line-is-named"], /it read a file whose line \d is/],
    [
      `if (Number.isNaN(number)) throw new Error("no"); ${add}`,
      ["bad-line-is-named"],
      /it threw: no; expected a TraceError/,
    ],
    [`${fails} ${add.replace("number", "number + readings")}`, ["determinism"], /arrivalNs\[0\] is/],
    [`${fails} ${add.replace("number", "-number")}`, ["valid-rows"], /row 1 arrives at -5 ns/],
    [`${fails} ${add.replace("16", "20")}`, ["valid-rows"], /20 input tokens and 1 keys, expected 2 keys/],
    [`${fails} ${add.replace("[b", "[7 + b")}`, ["batches-are-one-trace"], /new content id 7, expected 0/],
    [`${fails} ${add.replace("number", "Date.now()")}`, ["determinism", "no-hidden-inputs"], /wall clock/],
  ])("case %#", async (line, broken, message) => {
    const folder = folderWith(reader(line));
    writeFileSync(join(folder, "requests.txt"), "0\n5\n9\n");
    const { code, stdout } = await kvlab(folder, ["check", "./mine.ts", "--trace", "requests.txt", "--json"]);
    const laws: { name: string; result: string; message: string }[] = JSON.parse(stdout).laws;
    const found = laws.filter(({ result }) => result === "broken");
    expect({ code, names: found.map(({ name }) => name) }).toEqual({ code: broken.length > 0 ? 1 : 0, names: broken });
    expect(found.map((law) => law.message).join("\n")).toMatch(message);
  });

  test("are checked with a file, which no other plug-in has", async () => {
    expect(await refusal(folderWith(reader(add)), ["check", "./mine.ts"])).toMatch(
      /^\.\/mine\.ts: is a trace reader, .*--trace/,
    );
    expect(await refusal(newFolder(), ["check", "lru", "--trace", "x"])).toMatch(/--trace goes with a trace reader$/);
  });
});

test("kvlab init writes a plug-in of each kind, which satisfies its laws and compiles", async () => {
  const folder = newFolder();
  const parts = ["scheduler", "allocator", "router", "cost", "index"];
  for (const template of [...parts, "policy", "reader"]) {
    // From source, because the built program has no type declarations, with which the files are compiled below.
    const { code, stderr } = await ended(start(folder, ["init", template, `my-${template}`], {}, fromSource()));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  }
  for (const part of parts) {
    const { stdout } = await kvlab(folder, ["check", `./my-${part}.ts`, "--runs", "20", "--json"]);
    const laws: { name: string; result: string }[] = JSON.parse(stdout).laws;
    // What an index costs is measured, and depends on the load of the machine.
    const broken = laws.filter(({ name, result }) => result === "broken" && name !== "constant-cost");
    expect({ part, broken }).toEqual({ part, broken: [] });
  }
  writeFileSync(join(folder, "requests.csv"), "0,40,3\n5,20,2\n\n7.5,16,1\n");
  const checkReader = ["check", "./my-reader.ts", "--trace", "requests.csv"];
  expect((await json(folder, checkReader)).laws.filter(({ result }: { result: string }) => result !== "holds")).toEqual(
    [],
  );
  expect((await kvlab(folder, ["trace", "stats", "requests.csv", "--format", "./my-reader.ts"])).code).toBe(0);
  const { stdout, status } = spawnSync(join(process.cwd(), "node_modules/.bin/tsc"), ["-p", folder], {
    encoding: "utf8",
  });
  expect({ stdout, status }).toEqual({ stdout: "", status: 0 });
});
