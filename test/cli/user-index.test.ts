import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { json, kvlab, newFolder, refusal } from "./program.ts";

const mapIndex = fileURLToPath(new URL("./own/map-index.ts", import.meta.url));
const short = ["--limit", "200", "--blocks", "150"];

/** A folder with `mine.ts`: `own/map-index.ts` with replaced methods or fields. */
function folderWith(methods: string, plugin = ""): string {
  const folder = newFolder();
  const content = `import base from ${JSON.stringify(mapIndex)};
    export default { ...base, name: "mine", create(context, blockCount) {
      const index = base.create(context, blockCount);
      const { match, insert, evict, released } = index;
      return Object.assign(index, { ${methods} });
    }, ${plugin} };`;
  writeFileSync(join(folder, "mine.ts"), content);
  return folder;
}

const replay = ["replay", "--index", "./mine.ts", ...short];
const failure = (methods: string, plugin?: string, args: readonly string[] = [...replay, "--no-save"]) =>
  refusal(folderWith(methods, plugin), args);

describe("an index from a file", () => {
  test("makes the decisions of the hash table under the same rules, and is compared with it", async () => {
    const folder = newFolder();
    copyFileSync(mapIndex, join(folder, "mine.ts"));
    const both = ["--index", "hash-table,./mine.ts", "--rule", "duplicates=swap,keep", ...short];
    expect(await refusal(folder, ["compare", ...both])).toMatch(
      /^index map-index does not support rule duplicates=keep;/,
    );
    both[3] = "duplicates=swap";
    const { identical, configurations } = await json(folder, ["compare", ...both, "--first-difference", "--audit"]);
    expect(identical).toBe(true);
    expect(configurations[1]).toMatchObject({ name: "map-index", index: "map-index", indexFile: "./mine.ts" });
    const { stdout } = await kvlab(folder, ["compare", ...both, "--eviction", "lru"]);
    expect(stdout).toMatch(/^ {2}lru +hash-table \(\+1 equal\) +0\.\d{4}/m);
    expect(stdout).toContain("\nEqual: lru hash-table, lru map-index.\n");
  });

  test("is distinguished from another of the same name by its file", async () => {
    const folder = folderWith("");
    copyFileSync(join(folder, "mine.ts"), join(folder, "other.ts"));
    const files = ["--index", "./mine.ts,./other.ts"];
    const { configurations } = await json(folder, ["compare", ...files, "--first-difference", ...short]);
    expect(configurations.map(({ name }: { name: string }) => name)).toEqual(["mine", "./other.ts"]);
  });

  test("is saved with its file, in the report and in the command", async () => {
    const folder = folderWith("");
    const { policy } = await json(folder, [...replay, "--out", "run"]);
    expect(policy).toMatchObject({ index: "mine", indexFile: "./mine.ts", rules: { duplicates: "swap" } });
    const saved = JSON.parse(readFileSync(join(folder, "run/run.json"), "utf8"));
    expect(saved.policy.indexFile).toBe("./mine.ts");
    expect(saved.command).toContain(" --index ./mine.ts ");
  });

  test("is mentioned in the help", async () => {
    const helps = await Promise.all(["replay", "compare"].map((name) => kvlab(newFolder(), [name, "--help"])));
    expect(helps[0].stdout).toMatch(/--index <NAME> +prefix index, or a plug-in file/);
    expect(helps[1].stdout).toMatch(/--index <NAMES> +prefix indexes, or plug-in files/);
  });
});

describe("faults of the index are reported", () => {
  test("a missing method or count", async () => {
    expect(await failure("match: undefined")).toMatch(
      /^\.\/mine\.ts: create\(\) returned no index with match\(\), expected match, insert, /,
    );
    expect(await failure("evictableBlocks: undefined")).toBe(
      "./mine.ts: create() returned no index with evictableBlocks, expected a number",
    );
  });

  test("an exception", async () => {
    const seventh = `calls: 0, insert(i) { if (++index.calls === 7) throw new Error("full"); return insert.call(index, i); }`;
    expect(await failure(seventh)).toBe("./mine.ts: insert() threw at request 6: full");
  });

  test("a match of other content or of evicted blocks", async () => {
    const match = (then: string) =>
      `match(keys, start, count, table, found) { match.call(index, keys, start, count, table, found); ${then} }`;
    expect(await failure(match("if (found.blocks > 1) table[1] = table[0];"))).toMatch(
      /^\.\/mine\.ts: match\(\) at request \d+ found block \d+ at place 1, which has other content$/,
    );
    expect(await failure(match("found.blocks = count + 1;"))).toMatch(
      /^\.\/mine\.ts: match\(\) at request 0 found \d+ of \d+ blocks$/,
    );
    const forgetful = "evict(entry) { index.evictableBlocks--; context.host.evicted(Int32Array.of(entry), 1); }";
    expect(await failure(forgetful)).toMatch(
      /^\.\/mine\.ts: match\(\) at request \d+ found block \d+ at place \d+, which (is not in the index|has other content)$/,
    );
  });

  test("a missing notification of the host", async () => {
    expect(await failure("insert(insertion) { insert.call(index, insertion); }")).toBe(
      "./mine.ts: insert() returned undefined at request 0, expected true or false",
    );
    expect(await failure("evict(entry) { index.evictableBlocks--; }")).toMatch(
      /^\.\/mine\.ts: evict\(\d+\) at request \d+ reported no block to host\.evicted$/,
    );
    const released = "released(blocks, count) { released.call(index, blocks, count - 1); index.evictableBlocks++; }";
    expect(await failure(released)).toMatch(
      /^\.\/mine\.ts: released\(\) at request 0 did not report entry \d+ as evictable to the host$/,
    );
  });

  test("a violated invariant of the cache is one line that refers to kvlab check", async () => {
    const message = /^\.\/mine\.ts: at request \d+: .*; kvlab check \.\/mine\.ts shows the details$/;
    const twice = "evict(entry) { evict.call(index, entry); context.host.evicted(Int32Array.of(entry), 1); }";
    expect(await failure(twice)).toMatch(message);
    const args = ["compare", "--first-difference", "--index", "hash-table,./mine.ts", ...short];
    expect(await failure(twice, "", args)).toMatch(message);
  });

  test("a fault of the eviction policy is attributed to its file", async () => {
    const folder = folderWith("");
    writeFileSync(
      join(folder, "policy.ts"),
      `export default { name: "p", create: () => ({ add() { throw new Error("no"); }, remove() {}, victim() {} }) };`,
    );
    expect(await refusal(folder, [...replay, "--no-save", "--eviction", "./policy.ts"])).toBe(
      "./policy.ts: add() threw at request 0: no",
    );
    expect(await refusal(folder, ["replay", "--index", "./policy.ts"])).toBe(
      "./policy.ts: exports an eviction policy, expected an index { name, supports, create }; kvlab init index writes an example",
    );
  });

  test("the name of a built-in index, or invalid rules", async () => {
    expect(await failure("", `name: "hash-table"`)).toBe(
      `./mine.ts: its name is "hash-table", which is the name of a built-in plug-in; choose another name`,
    );
    expect(await failure("", `supports: { publish: "step" }`)).toBe(
      `./mine.ts: supports.publish is "step", expected "any" or a list of values`,
    );
    expect(await failure("", "defaults: {}")).toBe(
      "./mine.ts: index mine does not support rule duplicates=adopt; it supports duplicates=swap, " +
        "so { defaults } must contain one of them",
    );
  });
});
