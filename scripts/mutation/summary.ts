import { relative } from "node:path";
import type { MutantResult } from "@stryker-mutator/api/core";

/** A tested mutant. Lines and columns are from 1, as in all results of Stryker; those of a mutant before its test are from 0. */
type Tested = Pick<MutantResult, "fileName" | "location" | "mutatorName" | "replacement" | "status">;

const count = (results: readonly Tested[], status: Tested["status"]) =>
  results.filter((result) => result.status === status).length;

export const isKilled = ({ status }: Tested): boolean => status === "Killed" || status === "Timeout";

/** A mutant's place and its replacement. */
export function lineOf({ fileName, location: { start, end }, mutatorName, replacement, status }: Tested): string {
  const place = `${relative(".", fileName)}:${start.line}:${start.column}-${end.line}:${end.column}`;
  return `${place} ${mutatorName}: ${replacement?.replaceAll(/\s+/g, " ")} (${status})`;
}

/** The share of mutants on which a test fails or does not end, as text; mutants that no test executes are in the denominator. */
export function summary(results: readonly Tested[]): string {
  const killed = count(results, "Killed");
  const timeouts = count(results, "Timeout");
  const survived = count(results, "Survived");
  const uncovered = count(results, "NoCoverage");
  const all = killed + timeouts + survived + uncovered;
  const score = ((100 * (killed + timeouts)) / all).toFixed(1);
  const invalid = results.length - all;
  return [
    `${score} % of ${all} mutants killed: ${killed} by a failed test, ${timeouts} by a timeout; ${survived} survived, ${uncovered} without coverage`,
    ...(invalid === 0 ? [] : [`${invalid} mutants could not be tested`]),
    ...survivors(results),
  ].join("\n");
}

/** The mutants that are not killed, a line each. */
const survivors = (results: readonly Tested[]): string[] =>
  results
    .filter((result) => !isKilled(result))
    .map(lineOf)
    .sort();
