import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { kvlab, newFolder, refusal } from "./program.ts";

interface Law {
  readonly name: string;
  readonly result: "holds" | "broken" | "not-tried";
  readonly message: string | null;
  readonly story: readonly string[] | null;
  readonly calls: readonly string[] | null;
}

interface Document {
  readonly schema: string;
  readonly holds: boolean;
  readonly laws: readonly Law[];
  readonly cost: unknown;
  readonly blockCost: readonly { shape: string; sizes: readonly unknown[] }[] | null;
}

const few = ["--runs", "6"];
const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The document of `kvlab check --json` for a policy or a file. */
async function checked(policy: string, args: readonly string[] = few) {
  const { code, stdout, stderr } = await kvlab(newFolder(), ["check", policy, ...args, "--json"]);
  expect(stderr).toBe("");
  const document = JSON.parse(stdout) as Document;
  expect(document).toMatchObject({ schema: "check/1", holds: code === 0 });
  const broken = Object.fromEntries(
    document.laws.filter(({ result }) => result === "broken").map((law) => [law.name, law]),
  );
  return { code, document, broken, names: Object.keys(broken) };
}

/** The message of a cost that grows, or the one where a busy machine cannot measure large sizes within the time limit. */
const growing = (message: RegExp) =>
  new RegExp(`^(${message.source}|(a block|an operation) takes \\S+ ms .*, too slow to measure it with more)`);

/** Checks a plug-in of `broken/`, each of which has one fault. */
const faulty = (name: string, runs = "6", seed = "1") =>
  checked(fileOf(`./broken/${name}.ts`), ["--runs", runs, "--seed", seed]);

describe("the fault of a plug-in is reported", () => {
  test("a read of the wall clock", async () => {
    const { code, broken } = await faulty("wall-clock");
    expect(code).toBe(1);
    expect(broken["no-hidden-inputs"].message).toBe("reads the wall clock (Date.now) in add()");
  });

  test("unseeded random numbers, and not the divergences that they cause", async () => {
    const { broken, names } = await faulty("unseeded-random", "40");
    expect(broken["no-hidden-inputs"].message).toMatch(
      /^reads unseeded random numbers \(Math\.random\) in add\(\), in /,
    );
    expect(broken["determinism"].message).toMatch(/^a second replay of the same requests differs: /);
    expect(broken["determinism"].calls).toHaveLength(2);
    expect(names.sort()).toEqual(["determinism", "no-hidden-inputs"]);
  });

  test("an order that depends on the process", async () => {
    const { broken } = await faulty("process-order");
    expect(broken["no-hidden-inputs"].message).toBe("reads the state of the process (process.pid) while it is loaded");
  });

  test("state that is shared by caches", async () => {
    // The more caches were created before, the less one more of them changes the order of its counts.
    const { broken } = await faulty("last-run", "100", "3");
    expect(broken["determinism"].message).toMatch(/^a second replay of the same requests differs: /);
    expect(broken["no-hidden-inputs"]).toBeUndefined();
  });

  test("a victim that was removed", async () => {
    const { broken, names } = await faulty("forgets-removed");
    expect(names).toEqual(["victim-is-evictable"]);
    expect(broken["victim-is-evictable"].message).toMatch(
      /^victim\(\) returned \d+, which (was evicted|has been referenced since request \d+)/,
    );
    const { story, calls } = broken["victim-is-evictable"];
    expect(story![0]).toMatch(/^cache of \d+ blocks?, blocks of \d+ tokens?, index [a-z-]+, policy forgets-removed/);
    expect(story![1]).toMatch(/^request 0: prompt [01]/);
    expect(calls![0]).toMatch(/add\(\d+\).* remove\(\d+, (referenced|evicted)\).* victim\(\) → \d+$/);
  });

  test("no victim although entries are evictable", async () => {
    const { broken, names } = await faulty("gives-up");
    expect(names).toEqual(["always-a-victim"]);
    expect(broken["always-a-victim"].message).toMatch(
      /^victim\(\) returned none although entr(y|ies) [\d, ]+ (is|are) evictable$/,
    );
  });

  test("a victim() with side effects", async () => {
    const { broken } = await faulty("impure-victim");
    expect(broken["victim-is-pure"].message).toMatch(/^victim\(\) returned \d+, and \d+ when called again$/);
  });

  test("a hook that throws", async () => {
    const { broken, names } = await faulty("throws");
    expect(names).toEqual(["calls-return"]);
    expect(broken["calls-return"].message).toMatch(/^hit\(\) threw: no place for a hit of \d+$/);
    expect(broken["calls-return"].calls![0]).toMatch(/ hit\(\d+\)$/);
  });

  test("a call that never returns", async () => {
    const { broken, names } = await faulty("never-ends");
    expect(names).toEqual(["calls-return"]);
    expect(broken["calls-return"].message).toBe("victim() did not return within 2 s");
    expect(broken["calls-return"].calls![0]).toMatch(/victim\(\)$/);
  });

  test("an operation that scans all entries", async () => {
    const { broken, names } = await faulty("linear");
    expect(names).toEqual(["constant-cost"]);
    expect(broken["constant-cost"].message).toMatch(
      growing(
        /an operation costs \d+ × as much with \d+ × as many entries; most of the time is spent in victim\(\)\. /,
      ),
    );
  });

  test("an index that scans all blocks", async () => {
    const { broken, names } = await faulty("linear-index", "1");
    expect(names).toEqual(["constant-cost"]);
    expect(broken["constant-cost"].message).toMatch(
      growing(/a block costs \S+ × as much in a cache with \d+ × as many blocks; most of it is spent in evict\(\)\. /),
    );
  });

  test("an index that scans all children of a block", async () => {
    const { broken, names } = await faulty("list-of-children", "1");
    expect(names).toEqual(["constant-cost"]);
    expect(broken["constant-cost"].message).toMatch(
      growing(
        /a block costs \S+ × as much where \d+ × as many prompts diverge after one block; .* spent in match\(\)\. /,
      ),
    );
  });

  test("an index whose matches are too short", async () => {
    const { broken } = await faulty("short-sighted");
    expect(Object.keys(broken)).toContain("conservation");
    expect(broken["conservation"].message).toMatch(/^request \d+ references block \d+ twice$/);
  });
});

test("a referenced victim is reported with its requests, its calls and a command to rerun the check", async () => {
  const folder = newFolder();
  copyFileSync(fileOf("./broken/referenced-victim.ts"), join(folder, "mine.ts"));
  const { code, stdout, stderr } = await kvlab(folder, ["check", "./mine.ts", ...few, "--seed", "3"]);
  expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  expect(stdout).toContain("eviction policy referenced-victim (./mine.ts), 6 cases, seed 3\n");
  expect(stdout).toMatch(/^ {2}✗ victim\(\) returns an evictable entry/m);
  expect(stdout).toMatch(/^ {2}– it never has more hits than the offline optimum \(not tried: an earlier law$/m);
  expect(stdout).toMatch(
    /^✗ victim\(\) returns an evictable entry.*\n( {2}.*\n)* {2}victim\(\) returned 0, which has been referenced since request \d/m,
  );
  expect(stdout).toMatch(/^ {2}request 0: prompt /m);
  expect(stdout).toMatch(/^ {2}calls: create\(\) /m);
  expect(stdout).toMatch(/^1 law broken\. Rerun: kvlab check \.\/mine\.ts --runs 6 --seed 3$/m);
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(90);
  // The output is reproducible.
  expect((await kvlab(folder, ["check", "./mine.ts", ...few, "--seed", "3"])).stdout).toBe(stdout);
});

test("all other reads of clocks and random numbers are reported", async () => {
  const folder = newFolder();
  const reads = [
    "new Date()",
    "performance.now()",
    "process.hrtime()",
    "process.hrtime.bigint()",
    "randomBytes(4)",
    "crypto.randomUUID()",
    "setTimeout(() => {}, 1)",
  ];
  writeFileSync(
    join(folder, "mine.ts"),
    `import { randomBytes } from "node:crypto";\nimport { byScore } from "kvlab";
     const start = Date.now();
     export default { name: "mine", columns: ["lastAccess"], create(c: any) { ${reads.join("; ")}; new Date(start); return byScore("lastAccess").create(c); } };`,
  );
  const { stdout, code } = await kvlab(folder, ["check", "./mine.ts", "--runs", "1", "--json"]);
  expect(code).toBe(1);
  const { message } = (JSON.parse(stdout).laws as Law[]).find(({ name }) => name === "no-hidden-inputs")!;
  expect(message!.split("; ")).toEqual([
    "reads the wall clock (Date.now) while it is loaded",
    "reads the wall clock (new Date) in create()",
    "reads the wall clock (performance.now) in create()",
    "reads the wall clock (process.hrtime) in create()",
    "reads the wall clock (process.hrtime.bigint) in create()",
    "reads unseeded random numbers (crypto.randomBytes) in create()",
    "reads unseeded random numbers (crypto.randomUUID) in create()",
    "reads the wall clock, with a timer (setTimeout) in create()",
  ]);
});

describe("plug-ins without faults satisfy every law", () => {
  test.each(["used-again", "aging", "ghost-list", "second-chance"])("the example %s", async (name) => {
    const { code, document } = await checked(fileOf(`../../examples/${name}.ts`));
    const other = document.laws.filter(({ result }) => result !== "holds");
    expect(other).toEqual([]);
    expect(code).toBe(0);
    expect(document.cost).toMatchObject({ sizes: [{ entries: 1000 }, {}, {}, { entries: 64000 }] });
  });

  test("the template of init policy", async () => {
    const folder = newFolder();
    await kvlab(folder, ["init", "policy"]);
    const { code, stdout } = await kvlab(folder, ["check", "./mine.ts", "--runs", "1"]);
    expect(stdout).toMatch(/^All tried laws hold/m);
    expect(code).toBe(0);
  });

  test.each(["radix-tree", "./own/map-index.ts"])("the index %s", async (index) => {
    const { document } = await checked(index.endsWith(".ts") ? fileOf(index) : index, ["--runs", "2"]);
    expect(document.laws.map(({ name }) => name)).toContain("collisions");
    expect(document.laws.filter(({ result }) => result !== "holds")).toEqual([]);
    expect(document).toMatchObject({ kind: "index", cost: null, holds: true });
    expect(document.blockCost!.map(({ shape }) => shape)).toEqual(["prompts", "siblings"]);
    // The largest size is left out where filling a cache of it takes too long, as on a busy machine.
    for (const { sizes } of document.blockCost!) expect([3, 4]).toContain(sizes.length);
  });
});

test("a missing or invalid file is refused", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "mine.ts"), "export const a = 1;");
  expect(await refusal(folder, ["check", "./gone.ts"])).toBe("./gone.ts: no such file");
  expect(await refusal(folder, ["check", "./mine.ts"])).toMatch(
    /^\.\/mine\.ts: exports a, expected an eviction policy/,
  );
  mkdirSync(join(folder, "docs"));
  expect(await refusal(folder, ["check", "docs"])).toBe("docs: is a directory, expected a file");
  writeFileSync(join(folder, "notes.md"), "# Notes");
  expect(await refusal(folder, ["check", "./notes.md"])).toBe(
    "./notes.md: is not a program, expected a .ts or .js file",
  );
  expect(await refusal(folder, ["check", "lruu"])).toBe('unknown policy "lruu": did you mean "lru"?');
  expect(await refusal(folder, ["check", "./mine.ts", "--runs", "0"])).toMatch(/^--runs is "0"/);
  writeFileSync(join(folder, "half.ts"), "export default { create: () => ({ add() {} }) };");
  expect(await refusal(folder, ["check", "./half.ts"])).toBe(
    "./half.ts: create() returned no policy with remove(), expected add, remove, victim",
  );
  writeFileSync(join(folder, "index.ts"), "export default { supports: {}, create: () => ({ match() {} }) };");
  expect(await refusal(folder, ["check", "./index.ts"])).toMatch(
    /^\.\/index\.ts: create\(\) returned no index with matched\(\)/,
  );
  expect(await refusal(folder, ["replay", "--eviction", "./index.ts"])).toMatch(
    /exports an index, expected an eviction/,
  );
});

describe("an optional method that is not a function is refused", () => {
  const policy = (member: string) =>
    `export default { create: () => ({ add() {}, remove() {}, victim() {}, ${member} }) };`;
  const required = ["match", "matched", "referenced", "released", "insert", "evict", "drop"].concat([
    "blocks",
    "isEvictable",
    "entryOf",
    "grow",
    "expectKeys",
  ]);
  const index = `export default { supports: { collision: ["compare"] }, create: () => ({
    ${required.map((name) => `${name}() {}`).join(", ")}, evictableBlocks: 0, blockCount: 0, entryCount: 0, evictMany: 3 }) };`;

  test.each([
    ["hit: 3", "hit is 3, expected a function"],
    ["signal: 3", "signal is 3, expected a function"],
    ["begin: {}", "begin is an object, expected a function"],
    ['admits: "all"', 'admits is "all", expected a function'],
    ["takeMany: null", "takeMany is null, expected a function"],
  ])("%s of an eviction policy, in a replay and by kvlab check", async (member, message) => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.ts"), policy(member));
    const replay = ["replay", "--limit", "10", "--blocks", "300", "--no-save", "--eviction", "./mine.ts"];
    expect(await refusal(folder, replay)).toBe(`./mine.ts: ${message}`);
    expect(await refusal(folder, ["check", "./mine.ts", "--runs", "1"])).toBe(`./mine.ts: ${message}`);
  });

  test("evictMany of an index", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.ts"), index);
    const message = "./mine.ts: evictMany is 3, expected a function";
    expect(await refusal(folder, ["replay", "--limit", "10", "--no-save", "--index", "./mine.ts"])).toBe(message);
    expect(await refusal(folder, ["check", "./mine.ts", "--runs", "1"])).toBe(message);
  });
});
