import type { BlockNames } from "./block-names.ts";
import type { Operation } from "./case.ts";
import type { Fields } from "./values.ts";

/**
 * How an expected field is compared.
 *
 *   plain       the same value, lists and objects element by element
 *   set         a list in any order
 *   blocks      a block id, or lists of them, up to a one-to-one map of ids; null and text are compared as `plain`
 *   block-set   a list of block ids in any order, up to the map
 *   block-keys  an object whose keys are block ids, up to the map, with plain values
 */
export type Comparison = "plain" | "set" | "blocks" | "block-set" | "block-keys";

export interface OperationSpec {
  readonly inputs: readonly string[];
  readonly expects: Readonly<Record<string, Comparison>>;
  /** Inputs that are lists of conditions, which count as expectations. */
  readonly claims?: readonly string[];
}

/**
 * The results of an operation: a value per field, or a function from the expected value to the found one, for fields that
 * refer to something ("the blocks of request A").
 */
export type Found = Readonly<Record<string, unknown>>;

export interface Instance {
  /** @throws Unsupported if it cannot interpret an input. */
  run(name: string, inputs: Fields): Found;
}

/**
 * A contract of the behaviour of one component, and the code that runs its operations on kvlab's plug-ins.
 *
 * To add one: a file in `families/` that exports a `Family`, and a line in `families/index.ts`. List every config key,
 * operation, input and expected field: a case with any other is skipped before it runs. Read values
 * with the functions of `values.ts`, which throw `Unsupported` (skipped, with the reason) where a value is of another
 * shape. An optional input is `undefined` where a case has none.
 */
export interface Family {
  readonly name: string;
  readonly configKeys: readonly string[];
  readonly ops: Readonly<Record<string, OperationSpec>>;
  /** `ops`: all operations of the case, for families that need all requests in advance. */
  start(config: Fields, ops: readonly Operation[], blocks: BlockNames): Instance;
}
