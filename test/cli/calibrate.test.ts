import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ended, fromSource, json, newFolder, refusal, start } from "./program.ts";

/** From source, as an engine's thread has a file of its own; models are kept in the test's folder. */
async function fromCheckout(folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await ended(start(folder, args, { XDG_CACHE_HOME: folder }, fromSource()));
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return stdout;
}

const few = ["--limit", "40", "--blocks", "500", "--no-save"];

test("an engine is calibrated, the simulator takes the file, and the plot has every step", async () => {
  const folder = newFolder();
  const small = ["--max-prompt", "96", "--max-batch", "2", "--rounds", "1"];
  const document = JSON.parse(await fromCheckout(folder, ["calibrate", ...small, "--out", "tiny.json", "--json"]));
  expect(document).toMatchObject({ schema: "calibrate/1", from: null, cost: "tiny.json", plot: "tiny.svg" });
  expect(document.about).toMatch(/^random:tiny on the CPU, \d+ threads?, 32 bits, blocks of 16, /);
  const kinds = document.residuals.map(({ kind }: { kind: string }) => kind);
  expect(kinds).toEqual(["answers", "both", "prompts", "all"]);
  for (const { picoseconds, lowPs, highPs } of document.coefficients) {
    expect(picoseconds).toBeGreaterThanOrEqual(0);
    expect(lowPs).toBeLessThanOrEqual(highPs);
  }
  const cost = JSON.parse(readFileSync(join(folder, "tiny.json"), "utf8"));
  expect(cost).toMatchObject({ schema: "cost/1", about: document.about });
  const svg = readFileSync(join(folder, "tiny.svg"), "utf8");
  expect(svg.match(/<circle [^>]* r="2"/g)).toHaveLength(document.steps);
  const { simulation, latency } = await json(folder, ["replay", "--target", "sim", "--cost", "tiny.json", ...few]);
  expect(simulation.cost).toBe("tiny.json");
  expect(latency.ttftMs.mean).toBeGreaterThan(0);
});

test("a saved run gives back the coefficients that its steps were made with", async () => {
  const folder = newFolder();
  const picoseconds = { step: 5e9, prefillStep: 1e9, prefillTokens: 2e7, decodeTokens: 3e8, decodeContextTokens: 1e6 };
  writeFileSync(join(folder, "known.json"), JSON.stringify({ schema: "cost/1", picoseconds }));
  const run = ["replay", "--target", "sim", "--cost", "known.json", "--limit", "200", "--out", "run"];
  await json(folder, run);
  const document = await json(folder, ["calibrate", "--from", "run", "--out", "again.json"]);
  expect(document).toMatchObject({ from: "run", about: "the steps of run" });
  const found = JSON.parse(readFileSync(join(folder, "again.json"), "utf8")).picoseconds;
  const [before, after] = [picoseconds, found].map((ps) => [ps.step, ps.prefillTokens, ps.decodeContextTokens]);
  before.forEach((ps, i) => {
    expect(after[i] / ps).toBeCloseTo(1, 3);
  });
  const again = await json(folder, ["calibrate", "--from", "run", "--out", "again.json"]);
  expect(again).toEqual(document);
});

describe.concurrent("what cannot be calibrated is refused in one line", () => {
  const cases: [args: string, said: RegExp][] = [
    ["calibrate --target sim", /^--target is "sim", expected cpu: /],
    ["calibrate --model nowhere", /^no model folder nowhere; /],
    ["calibrate --max-prompt 16", /^--max-prompt is "16", expected a whole number from 32$/],
    [
      "calibrate --block-size 64 --max-prompt 100",
      /^prompts have at most 100 tokens, expected two blocks of 64 at least$/,
    ],
    ["calibrate --model random:tiny-gpt2 --max-prompt 4096", /positions for 1024$/],
    ["calibrate --from nowhere", /^nowhere\/steps\.parquet: cannot be read \(ENOENT\); expected the folder of a run$/],
    ["calibrate --from nowhere --model random:tiny", /^--model and --from exclude each other: /],
    ["calibrate --out a.json --plot a.json", /^--plot is a\.json, the file of the cost model; expected another one$/],
  ];
  test.each(cases)("kvlab %s", async (args, said) => {
    expect(await refusal(newFolder(), args.split(" "))).toMatch(said);
  });

  test("runs that are broken, or have no time", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "broken"));
    writeFileSync(join(folder, "broken/steps.parquet"), "PAR1 and nothing else");
    expect(await refusal(folder, ["calibrate", "--from", "broken"])).toMatch(
      /^broken\/steps\.parquet: is not Parquet \(/,
    );
    await json(folder, ["replay", "--limit", "20", "--out", "untimed"]);
    expect(await refusal(folder, ["calibrate", "--from", "untimed"])).toBe(
      "untimed/steps.parquet: has no column sequences; expected a run in time, saved by this version or a later one",
    );
    writeFileSync(join(folder, "file"), "");
    expect(await refusal(folder, ["calibrate", "--out", "file/cost.json"])).toBe(
      "file/cost.json: cannot be written, file is a file",
    );
  });
});
