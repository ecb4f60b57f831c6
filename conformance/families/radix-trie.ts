import { isOn } from "../caches/case-inputs.ts";
import { LabelledTree } from "../caches/labelled-tree.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, shown, tokens, Unsupported } from "../values.ts";
import { pagesOf } from "./radix-tree-locks.ts";

/**
 * TGI v3: a radix trie of blocks, whose leaves are evicted from their end. A lookup updates the last use of the whole node in
 * which it ends; only insertions split nodes.
 */
export const radixTrie: Family = {
  name: "radix-trie",
  configKeys: ["block_size", "evict_partial_node"],
  ops: {
    insert: { inputs: ["tokens", "values"], expects: { matched_tokens: "plain" } },
    find: { inputs: ["tokens"], expects: { node_is_root: "plain", same_node_as: "plain", values: "plain" } },
    evict: { inputs: ["n"], expects: { evicted: "plain" } },
  },
  start: (config, ops) => new RadixTrie(config, ops),
};

class RadixTrie implements Instance {
  readonly #tree: LabelledTree;
  readonly #blockTokens: number;
  /** By operation: its tokens. */
  readonly #paths: readonly (readonly number[] | undefined)[];

  constructor({ block_size: size, evict_partial_node: partial }: Fields, ops: readonly Operation[]) {
    this.#blockTokens = size === undefined ? 1 : integer(size, "block_size", 1);
    this.#paths = ops.map((op) => (op.name === "evict" ? undefined : tokens(op.inputs["tokens"])));
    this.#tree = new LabelledTree({
      pageTokens: this.#blockTokens,
      pages: pagesOf(ops, this.#blockTokens),
      renewsNodes: true,
      unit: isOn(partial, "evict_partial_node", true) ? "tail" : "node",
    });
  }

  run(op: string, inputs: Fields): Found {
    if (op === "insert")
      return { matched_tokens: this.#tree.insert(tokens(inputs["tokens"]), inputs["values"], undefined) };
    if (op === "evict") return { evicted: this.#tree.evict(integer(inputs["n"], "n") * this.#blockTokens) };
    const path = tokens(inputs["tokens"]);
    const node = this.#tree.nodeOf(path);
    return {
      values: this.#tree.find(path),
      node_is_root: node === undefined,
      same_node_as: (expected: unknown) => {
        // A lookup does not split nodes, so that they are the same as before it.
        const others = this.#pathsOf(expected).map((other) => this.#tree.nodeOf(other));
        if (new Set(others).size > 1) throw new Unsupported(`same_node_as ${shown(expected)} is ambiguous`);
        return others.length > 0 && others[0] === node ? expected : "another node";
      },
    };
  }

  /** Paths of an expectation: tokens, or the number of an operation with tokens, counted from 0 or from 1. */
  #pathsOf(expected: unknown): (readonly number[])[] {
    if (typeof expected !== "number") return [tokens(expected, "same_node_as")];
    return [this.#paths[expected - 1], this.#paths[expected]].filter((path) => path !== undefined);
  }
}
