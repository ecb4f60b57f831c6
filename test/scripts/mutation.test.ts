import { expect, test } from "vitest";
import { keyOf, mutantsOf, mutatedFiles, rangeOf, sampleOf } from "../../scripts/mutation/mutants.ts";
import { summary } from "../../scripts/mutation/summary.ts";

const source = {
  name: "core/planted.ts",
  content: `export const planted = { about: "a plug-in", source: \`its \${"paper"}\`, name: "planted" };
export function half(n: number): number {
  assert(n >= 0, () => \`\${n} is negative: \${["less than", "zero"].join()}\`);
  if (n > 9) throw new RangeError(\`\${n} is not a digit\`);
  return n / 2;
}
`,
};

const mutants = await mutantsOf([source]);

test("conditions, operators and names have mutants; messages and descriptions have none", () => {
  const replacements = (line: number) =>
    mutants.filter(({ location }) => location.start.line === line - 1).map(({ replacement }) => replacement);
  expect(replacements(1).sort()).toEqual(['""', "{}"]);
  expect(replacements(3)).toEqual(["true", "false", "n > 0", "n < 0"]);
  expect(replacements(4)).toEqual(["true", "false", "n >= 9", "n <= 9"]);
  expect(replacements(5)).toEqual(["n * 2"]);
});

test("only core/ and policies/ are mutated", () => {
  const files = mutatedFiles();
  expect(files).toContain("core/cache/kv-cache.ts");
  expect(files).toContain("policies/eviction/2q.ts");
  expect(files.filter((file) => !/^(core|policies)\/.*\.ts$/.test(file))).toEqual([]);
});

test("a mutant has one key and a range that Stryker reads: lines from 1, columns from 0", () => {
  const quotient = mutants.find(({ replacement }) => replacement === "n * 2")!;
  expect(rangeOf(quotient)).toBe("core/planted.ts:5:9-5:14");
  expect(keyOf(quotient)).toBe("core/planted.ts 4 9 4 14 ArithmeticOperator n * 2");
  expect(new Set(mutants.map(keyOf)).size).toBe(mutants.length);
});

test("a seed always draws the same sample, and a larger sample of the seed contains the smaller one", () => {
  const all = Array.from({ length: 1000 }, (_, i) => i);
  const sample = sampleOf(all, 50, 1);
  expect(new Set(sample).size).toBe(50);
  expect(sampleOf(all, 50, 1)).toEqual(sample);
  expect(sampleOf(all, 200, 1).slice(0, 50)).toEqual(sample);
  expect(sampleOf(all, 50, 2)).not.toEqual(sample);
  expect([...sampleOf(all, 2000, 1)].sort((a, b) => a - b)).toEqual(all);
});

test("the score counts timeouts as killed, and mutants without coverage as not killed", () => {
  const of = (status: "Killed" | "Timeout" | "Survived" | "NoCoverage" | "RuntimeError", at = 0) => ({
    ...mutants[at],
    status,
  });
  const found = [of("Killed"), of("Killed"), of("Timeout"), of("NoCoverage", 1), of("Survived"), of("RuntimeError")];
  const [score, invalid, ...survivors] = summary(found).split("\n");
  expect(score).toBe("60.0 % of 5 mutants killed: 2 by a failed test, 1 by a timeout; 1 survived, 1 without coverage");
  expect(invalid).toBe("1 mutants could not be tested");
  expect(survivors).toHaveLength(3);
  expect(survivors[0]).toMatch(/^core\/planted\.ts:1:24-1:.* ObjectLiteral: \{\} \((Survived|RuntimeError)\)$/);
});
