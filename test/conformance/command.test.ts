import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { json, kvlab, newFolder, refusal } from "../cli/program.ts";

const peak = (id: string, expected: number, family = "admission-estimate") => ({
  id,
  family,
  title: `the peak is ${expected}`,
  config: {},
  ops: [{ op: "peak", requests: [{ run_len: 3, left_len: 5 }], capacity: 9, expect: { peak: expected, admit: true } }],
});

/** A folder with these cases, one file each. */
function folderOf(cases: Readonly<Record<string, unknown>>): string {
  const folder = newFolder();
  for (const [name, value] of Object.entries(cases))
    writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));
  return folder;
}

describe.concurrent("kvlab conformance", () => {
  test("prints a line for each case, and the number of each verdict", async () => {
    const folder = folderOf({ "a.json": peak("a-1", 8), "b.json": peak("b", 8, "unheard-of") });
    const { code, stdout, stderr } = await kvlab(folder, ["conformance", "b.json", "a.json"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe(
      "skipped  b    unheard-of          the peak is 8\n" +
        `         b.json: unknown family "unheard-of"; known: admission-estimate,\n` +
        "         block-pool, block-reuse-partial, block-trie, block-trie-demo,\n" +
        "         block-trie-demo-fixed, eviction-order, explicit-prefix-pool,\n" +
        "         hash-allocator-v0, kv-events, partial-block-index, partial-match,\n" +
        "         priority-eviction, prompt-boundary, property, radix-block-allocator,\n" +
        "         radix-tree-locks, radix-trie, retention-ranges, scheduler-order,\n" +
        "         whole-prompt-lru\n" +
        "passed   a-1  admission-estimate  the peak is 8\n" +
        "\n1 passed, 0 failed, 1 skipped\n",
    );
  });

  test("exits with 1 if a case failed, and prints the operation and the reason", async () => {
    const { code, stdout, stderr } = await kvlab(folderOf({ "a.json": peak("a", 7) }), ["conformance", "a.json"]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout).toBe(
      "failed  a  admission-estimate  the peak is 7\n" +
        "         a.json: op 1 (peak): peak: expected 7, found 8\n" +
        "\n0 passed, 1 failed, 0 skipped\n",
    );
  });

  test("accepts folders: all case files in them, by name", async () => {
    const folder = folderOf({ "z.json": peak("z", 8), "b.json": peak("b", 8), "notes.txt": "no case" });
    mkdirSync(join(folder, "deeper"));
    writeFileSync(join(folder, "deeper", "c.json"), JSON.stringify(peak("c", 8)));
    const { cases } = await json(folder, ["conformance", "deeper", "."]);
    expect(cases.map(({ file }: { file: string }) => file)).toEqual(["deeper/c.json", "b.json", "z.json"]);
  });

  test("--json prints one document", async () => {
    const folder = folderOf({ "a.json": peak("a", 8), "b.json": peak("b", 7), "c.json": peak("c", 1, "none") });
    const { code, stdout } = await kvlab(folder, ["conformance", "--json", "a.json", "b.json", "c.json"]);
    expect(code).toBe(1);
    const why = "op 1 (peak): peak: expected 7, found 8";
    expect(JSON.parse(stdout)).toMatchObject({
      schema: "conformance/1",
      cases: [
        { id: "a", family: "admission-estimate", file: "a.json", verdict: "passed", why: null, op: null },
        { id: "b", family: "admission-estimate", file: "b.json", verdict: "failed", why, op: 1 },
        {
          id: "c",
          family: "none",
          file: "c.json",
          verdict: "skipped",
          why: expect.stringMatching(/^unknown family "none"; known: /),
        },
      ],
      passed: 1,
      failed: 1,
      skipped: 1,
    });
  });

  test("a case is one line, whatever its content", async () => {
    const { stdout } = await kvlab(folderOf({ "a.json": { ...peak("a\nb", 8), title: "one\n\u001b[31mtwo\t" } }), [
      "conformance",
      "a.json",
    ]);
    expect(stdout).toBe("passed  a b  admission-estimate  one [31mtwo\n\n1 passed, 0 failed, 0 skipped\n");
  });

  test("no line is longer than 80 columns, whatever the content of a case", async () => {
    const long = { ...peak("a".repeat(90), 8), title: `${"long ".repeat(40)}${"x".repeat(200)}` };
    const name = `${"n".repeat(120)}.json`;
    const files = { [name]: { ...long, family: "y".repeat(100) }, "b.json": peak("b", 8), "c.json": peak("c", 9) };
    for (const args of [[name, "b.json", "c.json"], ["c.json"]]) {
      const { stdout } = await kvlab(folderOf({ ...files, "c.json": { ...peak("c", 9), title: long.title } }), [
        "conformance",
        ...args,
      ]);
      expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    }
  });

  test("files that are not cases are refused in one line, before any case has run", async () => {
    const folder = folderOf({ "a.json": peak("a", 8), "b.json": "{", "c.json": { ...peak("c", 8), ops: 3 } });
    mkdirSync(join(folder, "empty"));
    const refused = (...args: string[]) => refusal(folder, ["conformance", ...args]);
    expect(await refused("a.json", "b.json")).toMatch(/^b\.json: is not JSON \(.*\), expected a case$/);
    expect(await refused("c.json")).toBe("c.json: ops is 3, expected a list of operations");
    expect(await refused("d.json")).toBe("d.json: no such file, expected a case file or a folder of them");
    expect(await refused("empty")).toBe("empty: has no .json file, expected case files");
    expect(await refused("")).toBe("a FILE is empty, expected a case file or a folder of them");
    expect(await refused()).toBe("missing required argument 'FILE'");
  });

  test("--help shows the usage", async () => {
    const { code, stdout } = await kvlab(newFolder(), ["conformance", "--help"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/Examples:\n {2}kvlab conformance case\.json\n/);
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });
});
