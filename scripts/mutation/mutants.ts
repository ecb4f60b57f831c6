import { readdirSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Mutant } from "@stryker-mutator/api/core";
import type { Ignorer } from "@stryker-mutator/api/ignore";
import type { Logger } from "@stryker-mutator/api/logging";
import { Instrumenter } from "@stryker-mutator/instrumenter";
import { seededRandom } from "../../core/random.ts";

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

/** The first `count` mutants in the random order of the seed: a larger sample of the same seed contains a smaller one. */
export function sampleOf<T>(mutants: readonly T[], count: number, seed: number): readonly T[] {
  const random = seededRandom(seed);
  const order = [...mutants];
  const size = Math.min(count, order.length);
  for (let i = 0; i < size; i++) {
    const j = i + random.below(order.length - i);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order.slice(0, size);
}

/** Stryker's pattern that mutates only what begins and ends inside the mutant. */
export const rangeOf = ({ fileName, location: { start, end } }: Mutant): string =>
  `${fileName}:${start.line + 1}:${start.column}-${end.line + 1}:${end.column}`;

/** Identifies a mutant in every run on these sources: Stryker's ids differ from run to run. */
export const keyOf = ({ fileName, location: { start, end }, mutatorName, replacement }: Mutant): string =>
  [relative(".", fileName), start.line, start.column, end.line, end.column, mutatorName, replacement].join(" ");
