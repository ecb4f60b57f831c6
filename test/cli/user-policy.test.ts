import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { json, kvlab, newFolder, refusal } from "./program.ts";

function folderWith(files: Record<string, string>): string {
  const folder = newFolder();
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

const short = ["--limit", "300", "--blocks", "300", "--no-save"];
const hits = async (folder: string, eviction: string) =>
  (await json(folder, ["replay", "--eviction", eviction, ...short])).cache.hitBlocks;

describe("an eviction policy from a file", () => {
  test("is written by init policy, and runs unchanged", async () => {
    const folder = newFolder();
    const { stdout, code } = await kvlab(folder, ["init", "policy", "two-touch"]);
    expect({ stdout, code }).toEqual({
      stdout:
        "Wrote two-touch.ts and tsconfig.json, which points editors to the types of kvlab. Try it:\n  kvlab compare --eviction lru,./two-touch.ts\n  kvlab check ./two-touch.ts\n",
      code: 0,
    });
    const report = await json(folder, ["replay", "--eviction", "./two-touch.ts", ...short]);
    expect(report.policy).toMatchObject({ eviction: "two-touch", evictionFile: "./two-touch.ts" });
    expect(report.cache.hitBlocks).toBeGreaterThan(0);
  });

  test("makes the decisions of the equal built-in policy, however it is exported and wherever its file is", async () => {
    const lru = `byScore("lastAccess", "releaseOrder")`;
    const from = `import { byScore, type EvictionPlugin } from "kvlab";\n`;
    const folder = folderWith({
      "plain.ts": `${from}export default ${lru};`,
      "named.ts": `${from}const why: string = "same";\nexport const own: EvictionPlugin = { name: "x", about: why, source: "", ...${lru} };`,
      "old/package.json": `{ "type": "commonjs" }`,
      "old/own.ts": `${from}import { score } from "./score.ts";\nexport default { name: "old", ...byScore(...score) };`,
      "old/score.ts": `export const score = ["lastAccess", "releaseOrder"] as const;`,
      "script.mjs": `import { byScore } from "kvlab";\nexport default { name: "script", ...${lru} };`,
    });
    const ours = await hits(folder, "lru");
    for (const file of ["plain.ts", "./named.ts", "old/own.ts", "./script.mjs"])
      expect(await hits(folder, file), file).toBe(ours);
  });

  test("is compared with others, also one that reads the future", async () => {
    const folder = folderWith({
      "a.ts": `import { byScore } from "kvlab";\nexport default byScore("depth");`,
      "b.ts": `import { byScore } from "kvlab";\nexport default { name: "b", columns: ["depth"], create: (c: any) => ({ ...methods(byScore("-depth").create(c)), prepare() {} }) };
        const methods = (p: any) => ({ add: p.add.bind(p), remove: p.remove.bind(p), victim: p.victim.bind(p) });`,
    });
    const { stdout, code } = await kvlab(folder, ["compare", "--limit", "300", "--eviction", "lru,./a.ts,./b.ts"]);
    expect(code).toBe(0);
    const names = stdout.split("\n").flatMap((line) => /^ {2}(\w+) +0\.\d{4}/.exec(line)?.[1] ?? "");
    expect(names.filter((name) => name !== "" && name !== "GiB")).toEqual([
      "lru",
      "a",
      "b",
      "belady",
      "unbounded",
      "bound",
    ]);
    expect(stdout).toMatch(/ b ( +0\.\d{4}[ *≈]?){5}/);
  });
});

describe("side effects of a policy", () => {
  const about = (body: string) =>
    `import { byScore } from "kvlab";\nexport default { columns: ["lastAccess", "createdAt"], create(c: any) { ${body} } };`;

  test("output goes to stderr, and timers do not keep the program running", async () => {
    const folder = folderWith({
      "mine.ts": about(
        `console.log("loaded"); process.stdout.write("made\\n"); setInterval(() => {}, 1000); return byScore("lastAccess").create(c);`,
      ),
    });
    const { code, stdout, stderr } = await kvlab(folder, ["replay", "--eviction", "./mine.ts", ...short, "--json"]);
    expect({ code, message: stderr.split("\n")[0] }).toEqual({ code: 0, message: "loaded" });
    expect(stderr).toContain("made\n");
    expect(JSON.parse(stdout).schema).toBe("run/1");
  });

  test("declared columns can be read at any time, others are refused", async () => {
    const folder = folderWith({
      "mine.ts": about(`return byScore((e: number) => -c.columns.createdAt[e]).create(c);`),
      "other.ts": about(`return byScore((e: number) => -c.columns.recomputeCost[e]).create(c);`),
    });
    expect(await hits(folder, "./mine.ts")).toBeGreaterThan(0);
    expect(await refusal(folder, ["replay", "--eviction", "./other.ts", ...short])).toMatch(
      /^\.\/other\.ts: add\(\) threw at request \d+: eviction policy "other" reads columns\.recomputeCost, which it does not declare: add columns: \["recomputeCost"\] to the plug-in$/,
    );
  });
});

test("the examples pass audits and do not exceed the optimum", async () => {
  const names = ["used-again", "aging", "ghost-list"];
  const files = names.map((name) => fileURLToPath(new URL(`../../examples/${name}.ts`, import.meta.url)));
  const args = ["compare", "--limit", "500", "--eviction", files.join(","), "--blocks", "10%", "--audit"];
  const { runs } = await json(newFolder(), args);
  type Run = { policy: { eviction: string }; cache: { hitBlocks: number } };
  const found = new Map((runs as Run[]).map(({ policy, cache }) => [policy.eviction, cache.hitBlocks]));
  expect([...found.keys()]).toEqual([...names, "belady", "unbounded"]);
  for (const name of names) {
    expect(found.get(name)).toBeGreaterThan(0);
    expect(found.get(name)).toBeLessThanOrEqual(found.get("belady") as number);
  }
});

describe("faults of a policy are reported", () => {
  const policy = (victim: string, create = "") =>
    `export default { name: "own", create() { ${create}; const all = new Set<number>();
      return { add: (e: number) => { all.add(e); }, remove: (e: number) => { all.delete(e); }, victim() { ${victim} } }; } };`;
  const failure = async (content: string) => {
    const folder = folderWith({ "mine.ts": content });
    return await refusal(folder, ["replay", "--eviction", "./mine.ts", ...short]);
  };

  test("an exception", async () => {
    expect(await failure(policy(`throw new Error("no idea")`))).toMatch(
      /^\.\/mine\.ts: victim\(\) threw at request \d+: no idea$/,
    );
    expect(await failure(policy("", `throw "early"`))).toBe("./mine.ts: create() threw: early");
  });
  test("a victim that is not evictable", async () => {
    expect(await failure(policy("return 12345678"))).toMatch(/^\.\/mine\.ts: .*entry 12345678 as victim/);
    expect(await failure(policy("return -1"))).toMatch(/^\.\/mine\.ts: .*entry -1 as victim/);
    const held = `const held = { last: 0 }; export default { name: "held", create() { const all = new Set<number>(); return {
      add: (e: number) => { all.add(e); }, remove: (e: number, why: string) => { all.delete(e); if (why === "referenced") held.last = e; },
      published: (e: number) => { held.last = e; },
      victim: () => held.last }; } };`;
    expect(await failure(held)).toMatch(
      /^\.\/mine\.ts: .*entry \d+ as victim, which (a request references|is not (evictable|in the cache))/,
    );
  });
  test("no victim", async () => {
    expect(await failure(policy("return undefined"))).toMatch(
      /^\.\/mine\.ts: .*no victim although \d+ (entries|blocks) are evictable/,
    );
  });
  test("a syntax error", async () => {
    expect(await failure("const a = 1;\nexport default = ;\n")).toMatch(/^\.\/mine\.ts:2: Unexpected/);
    expect(await failure(`import { nothing } from "kvlab";\nexport default nothing;`)).toMatch(
      /^\.\/mine\.ts: .*'kvlab' does not provide an export named 'nothing'/,
    );
    expect(await failure(`import "./gone.ts";\nexport default () => 1;`)).toMatch(/^\.\/mine\.ts:1: .*\.\/gone\.ts/);
  });
  test("a file without a policy, or with several", async () => {
    expect(await failure("export const a = 1;")).toMatch(/^\.\/mine\.ts: exports a, expected an eviction policy/);
    expect(await failure("")).toMatch(/^\.\/mine\.ts: exports nothing/);
    expect(await failure("export const a = { create() {} }, b = { create() {} };")).toMatch(
      /exports 2 policies \(a, b\)/,
    );
    expect(await failure("export default { create: () => ({ add() {} }) };")).toMatch(/no policy with remove\(\)/);
  });
  test("an exception outside any call, in one line without generated code", async () => {
    const later = policy("").replace("export default", "await new Promise((r) => setTimeout(r, 20));\nexport default");
    for (const [content, message] of [
      [`setTimeout(() => { throw new Error("late") });\n${later}`, "threw outside of any call: late"],
      [`Promise.reject(new Error("late"));\n${later}`, "threw outside of any call: late"],
      [`Promise.reject();\n${later}`, "threw outside of any call: undefined"],
      [policy("", "(async () => { throw new Error('async'); })();"), "threw outside of any call: async"],
      ["throw new Error(import.meta.url);", "./mine.ts"],
      ["throw Object.create(null);", "an error without a message"],
    ])
      expect(await failure(content), content).toBe(`./mine.ts: ${message}`);
  });
  test("loading that never ends, and process.exit", async () => {
    expect(await failure("await new Promise(() => {});")).toBe(
      "./mine.ts: top-level code awaits a promise that never settles",
    );
    expect(await failure("process.exit(0);")).toBe("./mine.ts: a plug-in must not call process.exit(0)");
    expect(await failure(policy("process.exit()"))).toMatch(
      /^\.\/mine\.ts: victim\(\) threw at request \d+: a plug-in must not call process\.exit\(\)$/,
    );
    expect(await failure(`setTimeout(() => process.exit(0));\nawait new Promise(() => {});`)).toContain(
      "process.exit(0)",
    );
  });
  test("the name of a built-in policy, or an invalid name", async () => {
    const named = (name: string) => failure(`export default { name: ${name}, create() {} };`);
    expect(await named(`"lru"`)).toBe(
      `./mine.ts: its name is "lru", which is the name of a built-in plug-in; choose another name`,
    );
    const expected = "expected a letter, then letters, digits, - or _";
    expect(await named(`"a\\nb"`)).toBe(`./mine.ts: its name is "a\\nb", ${expected}`);
    expect(await named(`""`)).toBe(`./mine.ts: its name is "", ${expected}`);
    expect(await named("7")).toBe(`./mine.ts: its name is number, ${expected}`);
    expect(await named(`"x".repeat(1e6)`)).toMatch(/^\.\/mine\.ts: its name is "x{39}…, expected at most 40 letters$/);
    const folder = folderWith({ "lru.ts": "export default { create() {} };" });
    expect(await refusal(folder, ["replay", "--eviction", "./lru.ts"])).toMatch(/^\.\/lru\.ts: its name is "lru", /);
  });
  test("a victim that is not an entry, and an unknown column", async () => {
    expect(await failure(policy("return '1' as never"))).toMatch(
      /^\.\/mine\.ts: victim\(\) returned string at request \d+, expected an entry or undefined$/,
    );
    expect(await failure(policy("return -1"))).toMatch(
      /^\.\/mine\.ts: at request \d+: eviction policy returned entry -1/,
    );
    expect(await failure(`import { byScore } from "kvlab";\nexport default byScore("lastAcess" as never);`)).toBe(
      './mine.ts: create() threw: no column "lastAcess": did you mean "lastAccess"?',
    );
  });
  test("a missing file", async () => {
    expect(await refusal(newFolder(), ["replay", "--eviction", "./mine.ts"])).toBe("./mine.ts: no such file");
  });
});
