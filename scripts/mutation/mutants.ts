import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Mutant } from "@stryker-mutator/api/core";
import type { Ignorer } from "@stryker-mutator/api/ignore";
import type { Logger } from "@stryker-mutator/api/logging";
import { Instrumenter } from "@stryker-mutator/instrumenter";

/** The folders whose sources are mutated. */
const folders = ["core", "policies"];

/** The keys of the sampled mutants, for the checker: it runs in another process. */
export const sampleFile = "runs/mutation/sample.json";

/** Properties of plug-ins whose values are text for people. */
const texts = ["about", "source"];

/** The part of Babel's NodePath that `messages` reads. */
interface SyntaxPath {
  readonly parent: {
    readonly type: string;
    readonly callee?: { readonly name?: string };
    readonly key?: { readonly name?: string };
  };
  readonly listKey?: string;
  readonly key: string | number;
}

/** Excludes messages of errors and assertions, and descriptions of plug-ins: a test of their wording would only repeat it. */
const messages: Ignorer = {
  shouldIgnore(path) {
    const { parent, listKey, key } = path as SyntaxPath;
    const callee = parent?.callee?.name ?? "";
    const isMessage =
      (parent?.type === "CallExpression" && callee === "assert" && listKey === "arguments" && key !== 0) ||
      (parent?.type === "NewExpression" && callee.endsWith("Error") && listKey === "arguments") ||
      (parent?.type === "ObjectProperty" && texts.includes(parent.key?.name ?? "") && key === "value");
    return isMessage ? "text for people" : undefined;
  },
};

const silent: Logger = {
  ...{ trace() {}, debug() {}, info() {}, warn() {}, error() {}, fatal() {} },
  ...{ isTraceEnabled: () => false, isDebugEnabled: () => false, isInfoEnabled: () => false },
  ...{ isWarnEnabled: () => false, isErrorEnabled: () => false, isFatalEnabled: () => false },
};

interface Source {
  readonly name: string;
  readonly content: string;
}

/** All sources that are mutated, in the order of their names. */
export const mutatedFiles = (): readonly string[] =>
  folders
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map(
        (file) => `${folder}/${file.replaceAll("\\", "/")}`,
      ),
    )
    .filter((file) => file.endsWith(".ts"))
    .sort();

export const sourcesOf = (files: readonly string[]): readonly Source[] =>
  files.map((name) => ({ name, content: readFileSync(name, "utf8") }));

/** All mutants of these sources that Stryker generates, in the order of their places. Messages have none. */
export async function mutantsOf(sources: readonly Source[]): Promise<readonly Mutant[]> {
  const options = { ignorers: [messages], excludedMutations: [], plugins: null };
  const { mutants } = await new Instrumenter(silent).instrument(
    sources.map((source) => ({ ...source, mutate: true })),
    options,
  );
  return mutants.filter(({ status }) => status === undefined);
}

/**
 * The `count` mutants with the smallest hashes of the seed and their text. A larger sample of the same seed contains a smaller
 * one, and a change of a source changes the sample only by the mutants of the lines that it changes.
 */
export function sampleOf(mutants: readonly Mutant[], count: number, seed: number): readonly Mutant[] {
  const equal = new Map<string, number>();
  const ranked = mutants.map((mutant) => {
    const text = [seed, mutant.fileName, mutant.mutatorName, mutant.replacement].join("\n");
    const before = equal.get(text) ?? 0;
    equal.set(text, before + 1);
    return { mutant, rank: createHash("sha256").update(`${text}\n${before}`).digest("hex") };
  });
  ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1));
  return ranked.slice(0, count).map(({ mutant }) => mutant);
}

/** Stryker's pattern that mutates only what begins and ends inside the mutant. */
export const rangeOf = ({ fileName, location: { start, end } }: Mutant): string =>
  `${fileName}:${start.line + 1}:${start.column}-${end.line + 1}:${end.column}`;

/**
 * Identifies a mutant in every run on these sources: Stryker's ids differ from run to run. `first` is the number of the first line
 * and column: 0 before the test of a mutant, 1 in its result.
 */
export const keyOf = ({ fileName, location: { start, end }, mutatorName, replacement }: Mutant, first = 0): string => {
  const place = [start.line, start.column, end.line, end.column].map((at) => at - first);
  return [relative(".", fileName), ...place, mutatorName, replacement].join(" ");
};
