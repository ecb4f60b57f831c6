import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ended, kvlab, newFolder, refusal, start } from "./program.ts";

/** The model cache is in the folder of the test. */
const fuzz = (folder: string, args: string) =>
  ended(start(folder, ["fuzz", ...args.split(" ")], { XDG_CACHE_HOME: folder }));

test("no search finds a counterexample, and each reports its cases", async () => {
  const folder = newFolder();
  const { code, stdout, stderr } = await fuzz(folder, "--cases 8 --seed 3 --json");
  expect([code, stderr]).toEqual([0, ""]);
  const document = JSON.parse(stdout);
  expect(document).toMatchObject({ schema: "fuzz/1", seed: 3, interrupted: false, found: 0 });
  const kinds = document.kinds as { name: string; cases: number; refused: number; finding: unknown }[];
  expect(kinds.map(({ name }) => name)).toEqual(["sim-engine", "caching", "fast-forward", "indexes", "event-log"]);
  for (const { cases, refused, finding } of kinds) expect([cases + refused, finding]).toEqual([8, null]);
  expect(readdirSync(folder)).not.toContain("fuzz");
});

test("fuzz found: a request refused during decode with free output lengths is refused in the simulator, too", async () => {
  const folder = newFolder();
  const request = { timestamp: 0, input_length: 5, output_length: 1, hash_ids: [0, 1, 2], max_output_length: 3 };
  writeFileSync(join(folder, "refused.jsonl"), JSON.stringify({ ...request, block_size: 2 }));
  const args = "verify refused.jsonl --block-size 2 --blocks 3 --output-lengths free --json".split(" ");
  const { code, stdout } = await ended(start(folder, args, { XDG_CACHE_HOME: folder }));
  expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ identical: true, refusedRequests: 1 })]);
});

test("a saved case is rerun by its name or its file", async () => {
  const folder = newFolder();
  const request = { arrival_time_ns: 0, input_toks: 2, output_toks: 1, input_tok_ids: [1, 2], output_tok_ids: [3] };
  writeFileSync(join(folder, "mine.jsonl"), `${JSON.stringify(request)}\n`);
  const setup = {
    ...{ index: "radix-tree", eviction: "lru", allocator: "block", scheduler: "naive", schedulerOptions: {} },
    ...{ rules: { duplicates: "swap" }, blockTokens: 1, blocks: 4, hostBlocks: 0, seed: 1, loop: "open", clock: 0 },
    answers: "trace",
  };
  const document = { schema: "fuzz-case/1", against: "indexes", trace: "mine.jsonl", setup };
  writeFileSync(join(folder, "mine.json"), JSON.stringify(document));
  for (const args of ["--replay mine --out .", "--replay ./mine.json"]) {
    const { code, stdout } = await fuzz(folder, args);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ indexes: [\s\S]*1 case, \d+ decisions[\s\S]*No counterexample: 1 case/);
  }
  expect(readFileSync(join(folder, "mine.json"), "utf8")).toBe(JSON.stringify(document));
});

test("the smallest trace on which LRU has fewer hits than FIFO is shown and saved, and compare shows it, too", async () => {
  const folder = newFolder();
  const { code, stdout } = await kvlab(folder, ["fuzz", "--beat", "lru", "fifo", "--json"]);
  const { beat, schema, found } = JSON.parse(stdout);
  expect([code, schema, found]).toEqual([0, "fuzz/1", 1]);
  const hits = [
    [0, 0, 1, 0, 0],
    [0, 0, 1, 0, 1],
  ];
  expect(beat.finding).toMatchObject({ prompts: ["a", "b", "a", "c", "b"], blocks: 2, hits, isSmallest: true });
  const [command] = beat.finding.commands as string[];
  const shown = await kvlab(folder, command.split(" ").slice(1));
  expect([shown.code, shown.stdout]).toEqual([1, expect.stringMatching(/diverges from lru at request 3/)]);
  const none = await kvlab(folder, ["fuzz", "--beat", "belady", "lru", "--cases", "300"]);
  expect(none.stdout).toMatch(
    /^In 300 cases, no trace was found on which belady has fewer hits than lru\. All\ntraces of up to 2 requests /,
  );
});

describe.concurrent("invalid options are refused in one line", () => {
  const cases: [args: string, message: RegExp][] = [
    [
      "--against simulators",
      /^--against has "simulators", expected one of sim-engine, caching, fast-forward, indexes, event-log$/,
    ],
    ["--minutes 0", /^--minutes is 0, expected a number above 0$/],
    ["--cases none", /^--cases is "none", expected a whole number from 1$/],
    ["--beat lru", /^--beat has 1 name, expected two: --beat lru fifo$/],
    ["--beat lru fifo --against indexes", /^--beat and --against exclude each other$/],
    ["--beat lru lur", /did you mean "lru"/],
    ["--replay nothing", /^fuzz\/nothing\.json: no such counterexample$/],
  ];
  test.each(cases)("kvlab fuzz %s", async (args, message) => {
    expect(await refusal(newFolder(), ["fuzz", ...args.split(" ")])).toMatch(message);
  });
});
