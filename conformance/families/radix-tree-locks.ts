import { isOn } from "../caches/case-inputs.ts";
import { LabelledTree } from "../caches/labelled-tree.ts";
import type { Operation } from "../case.ts";
import type { Family, Found } from "../family.ts";
import { type Fields, integer, name, oneOf, tokens } from "../values.ts";

/** SGLang and LightLLM: a radix tree of token runs, whose paths can be locked, and whose leaves are evicted as a whole. */
export const radixTreeLocks: Family = {
  name: "radix-tree-locks",
  configKeys: ["disabled", "evict_unit", "page_size"],
  ops: {
    insert: { inputs: ["extra_key", "tokens", "values"], expects: { matched_tokens: "plain" } },
    match: { inputs: ["extra_key", "tokens"], expects: { values: "plain" } },
    lock: { inputs: ["extra_key", "handle", "tokens"], expects: {} },
    unlock: { inputs: ["handle"], expects: {} },
    evict: { inputs: ["n"], expects: { evicted: "plain", evicted_count: "plain" } },
    reset: { inputs: [], expects: {} },
    state: { inputs: [], expects: { evictable: "plain", protected: "plain", total: "plain" } },
  },
  start({ disabled, evict_unit: unit, page_size: page }, ops) {
    const pageTokens = page === undefined ? 1 : integer(page, "page_size", 1);
    const units = { node: "node", leaf: "node", tail: "tail" } as const;
    const tree = new LabelledTree({
      pageTokens,
      pages: pagesOf(ops, pageTokens),
      disabled: isOn(disabled, "disabled"),
      // SGLang updates the last use of a node before it splits it. It evicts nodes only, and its cases do not name the unit.
      renewsNodes: unit === undefined,
      unit:
        unit === undefined ? "node" : units[oneOf(unit, "evict_unit", Object.keys(units) as (keyof typeof units)[])],
    });
    return { run: (op, inputs) => run(tree, op, inputs) };
  },
};

/** Upper bound of the pages of all insertions. */
export function pagesOf(ops: readonly Operation[], pageTokens: number): number {
  const inserted = ops.filter((op) => op.name === "insert").map(({ inputs }) => tokens(inputs["tokens"]).length);
  return inserted.reduce((pages, count) => pages + Math.floor(count / pageTokens), 0);
}

function run(tree: LabelledTree, op: string, inputs: Fields): Found {
  const { extra_key: namespace, handle, n } = inputs;
  switch (op) {
    case "insert":
      return { matched_tokens: tree.insert(tokens(inputs["tokens"]), inputs["values"], namespace) };
    case "match":
      return { values: tree.match(tokens(inputs["tokens"]), namespace) };
    case "lock":
      tree.lock(name(handle, "handle"), tokens(inputs["tokens"]), namespace);
      return {};
    case "unlock":
      tree.unlock(name(handle, "handle"));
      return {};
    case "evict": {
      const { total } = tree;
      // There may be one label per page, but the count is in tokens.
      return { evicted: tree.evict(integer(n, "n")), evicted_count: total - tree.total };
    }
    case "reset":
      tree.reset();
      return {};
    default:
      return { total: tree.total, evictable: tree.evictable, protected: tree.total - tree.evictable };
  }
}
