import type { CheckResult } from "../../laws/check-plugin.ts";
import { version } from "../package.ts";
import type { PluginKind } from "../user-plugins/kinds.ts";

/** The result of one law, or the reason why it was not tried. */
export interface CheckedLaw {
  /** Such as "victim-is-pure". */
  readonly name: string;
  /** The law as a sentence. */
  readonly says: string;
  readonly result: "holds" | "broken" | "not-tried";
  readonly message: string | null;
  /** The smallest counterexample, by line. */
  readonly story: readonly string[] | null;
  /** The plug-in's calls in it. */
  readonly calls: readonly string[] | null;
}

/** Schema check/1. */
export interface CheckDocument {
  readonly schema: "check/1";
  readonly kvlab: string;
  readonly file: string;
  readonly kind: PluginKind;
  readonly name: string;
  readonly runs: number;
  readonly seed: number;
  /** No law is broken. */
  readonly holds: boolean;
  readonly laws: readonly CheckedLaw[];
  /** For an eviction policy: with n entries, the time of an operation is proportional to n to the power of `exponent`. */
  readonly cost: {
    readonly exponent: number;
    readonly sizes: readonly {
      readonly entries: number;
      readonly nsPerOperation: number;
      readonly nsByMethod: Readonly<Record<string, number>>;
    }[];
  } | null;
  /** For an index, by shape of the prompts: the time per block of a prompt; `dearest` is the method that takes most of it. */
  readonly blockCost:
    | readonly {
        readonly shape: string;
        readonly exponent: number;
        readonly dearest: string | null;
        readonly sizes: readonly { readonly blocks: number; readonly nsPerBlock: number }[];
      }[]
    | null;
}

interface Results extends CheckResult {
  readonly file: string;
  readonly kind: PluginKind;
  readonly plugin: { readonly name: string };
  readonly runs: number;
  readonly seed: number;
}

export function checkDocument(results: Results): CheckDocument {
  const { findings, kind, plugin, file, runs, seed, growth, indexGrowth } = results;
  return {
    schema: "check/1",
    kvlab: version,
    file,
    kind,
    name: plugin.name,
    runs,
    seed,
    holds: findings.every(({ result }) => result !== "broken"),
    laws: findings.map(({ law, result, message, counterexample, calls }) => ({
      name: law.name,
      says: law.statement,
      result,
      message: message ?? null,
      story: counterexample?.split("\n") ?? null,
      calls: calls ?? null,
    })),
    cost: growth
      ? {
          exponent: growth.exponent,
          sizes: growth.costs.map(({ entries, nsPerOperation, nsByMethod }) => ({
            entries,
            nsPerOperation,
            nsByMethod,
          })),
        }
      : null,
    blockCost:
      indexGrowth?.map(({ shape, exponent, costs, costliestMethod }) => ({
        shape,
        exponent,
        dearest: costliestMethod ?? null,
        sizes: costs,
      })) ?? null,
  };
}
