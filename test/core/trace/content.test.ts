import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../core/random.ts";
import { BlockKeys, type ChainHash, ContentIds, fourLanes } from "../../../core/trace/content.ts";
import { TraceBuilder } from "../../../core/trace/trace.ts";

const tokens = (...row: number[]) => Uint32Array.from(row);
const constantHash: ChainHash = (lanes) => {
  lanes.fill(0);
};

describe.each([
  ["the default hash", fourLanes],
  ["a hash that always collides", constantHash],
])("content ids with %s", (_name, hash) => {
  test("two blocks have the same id if and only if all tokens up to their end are equal", () => {
    const ids = new ContentIds({ blockKeys: 2, hash });
    const row = tokens(1, 2, 3, 4, 1, 2);
    const first = ids.intern(undefined, 0, row, 0, 2);
    const second = ids.intern(first, 0, row, 2, 2);
    expect([first, second]).toEqual([0, 1]);
    // The same tokens: at the start, after themselves, after other tokens.
    expect(ids.intern(undefined, 0, row, 4, 2)).toBe(first);
    expect(ids.intern(first, 0, row, 0, 2)).toBe(2);
    expect(ids.intern(second, 0, row, 4, 2)).toBe(3);
    expect(ids.intern(first, 0, row, 2, 2)).toBe(second);
  });

  test("a shorter block has another id, also if it is a prefix of the longer one", () => {
    const ids = new ContentIds({ blockKeys: 4, hash });
    const row = tokens(7, 7, 7, 0);
    const lengths = [1, 2, 3, 4].map((length) => ids.intern(undefined, 0, row, 0, length));
    expect(lengths).toEqual([0, 1, 2, 3]);
  });

  test("different namespaces have different ids", () => {
    const ids = new ContentIds({ blockKeys: 2, hash });
    const row = tokens(1, 2);
    const roots = [0, 1, 2, 1, 0].map((namespace) => ids.intern(undefined, namespace, row, 0, 2));
    expect(roots).toEqual([0, 1, 2, 1, 0]);
    expect(ids.intern(roots[0], 0, row, 0, 2)).not.toBe(ids.intern(roots[1], 1, row, 0, 2));
  });
});

test("a hash that always collides gives all contents one id, if it is trusted", () => {
  const ids = new ContentIds({ blockKeys: 2, hash: constantHash, collision: "trust" });
  expect(ids.intern(undefined, 0, tokens(1, 2), 0, 2)).toBe(0);
  expect(ids.intern(0, 0, tokens(3, 4), 0, 2)).toBe(0);
});

test("a hundred thousand contents have the same ids after the tables have grown", () => {
  const ids = new ContentIds({ blockKeys: 1 });
  const n = 100_000;
  let above: number | undefined;
  // Half of them are a chain, half of them siblings.
  for (let i = 0; i < n / 2; i++) above = ids.intern(above, 0, tokens(i % 3), 0, 1);
  for (let i = 0; i < n / 2; i++) ids.intern(undefined, 0, tokens(1000 + i), 0, 1);
  expect(ids.count).toBe(n);
  above = undefined;
  for (let i = 0; i < n / 2; i++) expect((above = ids.intern(above, 0, tokens(i % 3), 0, 1))).toBe(i);
  for (let i = 0; i < n / 2; i++) expect(ids.intern(undefined, 0, tokens(1000 + i), 0, 1)).toBe(n / 2 + i);
});

// The hash's low bits choose the slot of a table, so they must be uniformly distributed; all 128 bits together must distinguish
// blocks.
describe.each<[string, (i: number, at: number) => number]>([
  ["sequential", (i, at) => 16 * i + at],
  ["equal except for one counter", (i, at) => (at === 5 ? i : 1)],
  ["sparse, nearly all zero", (i, at) => (at === i % 16 ? 1 + Math.floor(i / 16) : 0)],
  ["multiples of a power of two", (i, at) => ((i * 16 + at) << 12) >>> 0],
  ["the same token repeated", (i) => i],
  ["drawn from a vocabulary", () => vocabulary.below(128_000)],
])("fourLanes on blocks that are %s", (_name, tokenAt) => {
  const n = 1 << 16;
  const hashes = new Int32Array(4 * n);
  const block = new Uint32Array(16);
  for (let i = 0; i < n; i++) {
    for (let at = 0; at < 16; at++) block[at] = tokenAt(i, at);
    const lanes = Int32Array.from([0x6a09e667, 0x3c6ef372, 0x1f83d9ab, 0x5be0cd19]);
    fourLanes(lanes, block, 0, 16);
    hashes.set(lanes, 4 * i);
  }

  test("has no collision in 128 bits", () => {
    const seen = new Set<string>();
    for (let i = 0; i < n; i++) seen.add(hashes.subarray(4 * i, 4 * i + 4).join());
    expect(seen.size).toBe(n);
  });

  test.each([0, 1, 2, 3])("the low 10 bits of lane %i are uniformly distributed", (lane) => {
    const bins = new Float64Array(1024);
    for (let i = 0; i < n; i++) bins[hashes[4 * i + lane] & 1023]++;
    // Chi-square with 1023 degrees of freedom: mean 1023, standard deviation 45; the bound for lane 0 is eight standard
    // deviations above the mean.
    const expected = n / 1024;
    const chiSquare = bins.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    if (lane === 0) {
      expect(chiSquare).toBeLessThan(1023 + 8 * 45);
    } else {
      // Only lane 0 chooses a slot; the others need only be distinct.
      expect(chiSquare).toBeLessThan(20 * 1023);
    }
  });
});
const vocabulary = seededRandom(1);

describe("block columns", () => {
  const trace = (unitTokens: number, inputTokens: number, keys: number[]) => {
    const builder = new TraceBuilder(unitTokens);
    builder.add({ arrivalNs: 0, inputTokens, outputTokens: 1, keys });
    return builder.take();
  };

  test("a token trace counts full blocks only, a content-id trace its partial last block too", () => {
    const byToken = new BlockKeys({ unitTokens: 1, blockTokens: 4 }).of(trace(1, 6, [1, 2, 3, 4, 5, 6]));
    expect([...byToken.promptBlocks]).toEqual([1]);
    const byContent = new BlockKeys({ unitTokens: 2, blockTokens: 4 }).of(trace(2, 6, [0, 1, 2]));
    expect([...byContent.promptBlocks]).toEqual([2]);
    // A block's id is that of the last unit in it.
    expect([...byContent.keys]).toEqual([1, 2]);
  });

  test("a block size that is no multiple of the trace's unit is refused", () => {
    expect(() => new BlockKeys({ unitTokens: 16, blockTokens: 24 })).toThrow(
      "block size is 24, expected a multiple of the trace's unit, 16 tokens",
    );
  });
});

describe("with partial blocks and output tokens that the trace does not have", () => {
  // Six prompt tokens and three output tokens with KV: a whole block, and one that contains the end of the prompt.
  const columnsOf = (namespaces?: readonly number[]) => {
    const builder = new TraceBuilder(1);
    for (const r of [0, 1])
      builder.add({
        arrivalNs: r,
        inputTokens: 6,
        outputTokens: 4,
        keys: [1, 2, 3, 4, 5, 6],
        ...(namespaces && { namespace: namespaces[r] }),
      });
    const contents = new BlockKeys({ unitTokens: 1, blockTokens: 4, partial: true, generated: true });
    return { contents, columns: contents.of(builder.take()) };
  };

  test("the block that contains the end of a prompt has unique content, and its prompt tokens in common with others", () => {
    const { contents, columns } = columnsOf();
    const [first, own, again, other] = columns.keys;
    expect(columns.plainKeys).toBe(undefined);
    expect(again).toBe(first);
    expect(other).not.toBe(own);
    expect(contents.commonTokens(own, other)).toBe(2);
  });

  test("namespaces have no content in common; their contents without the namespace are numbered too", () => {
    const { columns } = columnsOf([1, 2]);
    expect(new Set(columns.keys).size).toBe(4);
    const [first, own, again, other] = columns.plainKeys!;
    expect(again).toBe(first);
    expect(other).not.toBe(own);
  });
});
