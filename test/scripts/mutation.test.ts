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
  const result = { ...quotient, location: { start: { line: 5, column: 10 }, end: { line: 5, column: 15 } } };
  expect(keyOf(result, 1)).toBe(keyOf(quotient));
  expect(new Set(mutants.map((mutant) => keyOf(mutant))).size).toBe(mutants.length);
});

test("a seed always draws the same sample, and a larger sample of the seed contains the smaller one", () => {
  const sample = sampleOf(mutants, 5, 1);
  expect(new Set(sample).size).toBe(5);
  expect(sampleOf(mutants, 5, 1)).toEqual(sample);
  expect(sampleOf(mutants, 9, 1).slice(0, 5)).toEqual(sample);
  expect(sampleOf(mutants, 5, 2)).not.toEqual(sample);
  expect(sampleOf(mutants, 2000, 1)).toHaveLength(mutants.length);
});

test("code that is added elsewhere does not change which mutants are drawn first", async () => {
  const more = await mutantsOf([
    { name: "core/added.ts", content: "export const sum = (a: number) => a + 1;" },
    source,
  ]);
  const textOf = ({ fileName, replacement }: (typeof mutants)[number]) => `${fileName} ${replacement}`;
  const order = sampleOf(more, more.length, 1).filter(({ fileName }) => fileName === source.name);
  expect(order.map(textOf)).toEqual(sampleOf(mutants, mutants.length, 1).map(textOf));
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
  expect(survivors[0]).toMatch(/^core\/planted\.ts:0:23-0:.* ObjectLiteral: \{\} \((Survived|RuntimeError)\)$/);
});
