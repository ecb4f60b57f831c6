import { expect, test } from "vitest";
import type { IndexPlugin } from "../../../core/plugins/index.ts";
import { replayTrace } from "../../../core/replica/replay.ts";
import { indexRegistry } from "../../../policies/registry.ts";
import { letterTrace } from "../../support/letters.ts";
import { configOf } from "../../support/replays.ts";

test("an audited replay audits the cache within each step and after each request, another replay never", () => {
  const hashTable = indexRegistry.get("hash-table");
  let audits = 0;
  // Only an audit lists the stored blocks.
  const index: IndexPlugin = {
    ...hashTable,
    create(context, blockCount) {
      const inner = hashTable.create(context, blockCount);
      const blocks = inner.blocks.bind(inner);
      inner.blocks = () => {
        audits++;
        return blocks();
      };
      return inner;
    },
  };
  const trace = letterTrace(["A", "B", "A"]);
  replayTrace(trace, { ...configOf(trace), index });
  expect(audits).toBe(0);
  replayTrace(trace, { ...configOf(trace), index, audit: true });
  expect(audits).toBe(6);
});
