import { expect, test } from "vitest";
import { served } from "../../support/letters.ts";

// Small examples that are worked out by hand. Each letter is a request with a prompt of one block, unless stated otherwise.

const left = (requests: string, policy: string, blocks: number) => served([...requests], { policy, blocks }).letters;

test("clock: a hit delays the eviction by one turn, whatever the order of the hits", () => {
  // Queue A* B* C: for D both bits are cleared and C is evicted; for E the queue is A B D.
  expect(left("ABCBADE", "clock", 3)).toBe("BDE");
  expect(left("ABCBADE", "lru", 3)).toBe("ADE");
});

test("sieve: an entry that the hand has passed stays until the next turn of the hand", () => {
  // D: the hand clears A and evicts B; E: C is evicted; F: D is evicted, although A is older.
  expect(left("ABCADEF", "sieve", 3)).toBe("AEF");
  expect(left("ABCADEF", "clock", 3)).toBe("DEF");
});

test("s3-fifo: an entry with two hits is in the main queue; entries without are evicted from the small queue", () => {
  // K moves A to the main queue and evicts B; L to T evict C to J and then K.
  expect(left("ABCDEFGHIJAAKLMNOPQRST", "s3-fifo", 10)).toBe("ALMNOPQRST");
  expect(left("ABCDEFGHIJAAKLMNOPQRST", "lru", 10)).toBe("KLMNOPQRST");
});

test("2q: a content that is inserted again soon after its eviction is in the LRU list", () => {
  // E evicts A, whose ghost puts the second A into Am; B, C, D, E and F follow from A1in.
  expect(left("ABCDEAFGHI", "2q", 4)).toBe("AGHI");
  expect(left("ABCDEAFGHI", "lru", 4)).toBe("FGHI");
});

test("arc: entries used once are evicted first; their ghosts make the list of entries used once longer", () => {
  expect(left("AABC", "arc", 2)).toBe("AC");
  // B evicts C; the ghost of B sets the target to 1 and B is in T2, so that C evicts A from T2.
  expect(left("AABCB", "arc", 2)).toBe("AB");
  expect(left("AABCBC", "arc", 2)).toBe("BC");
});

test("lirs: a ghost that is used again soon becomes LIR, and the least recently used LIR entry is evicted", () => {
  // D evicts A and is HIR; E evicts D. D is a ghost above B, the bottom of the stack: B becomes HIR, and F evicts it.
  expect(left("ABCDE", "lirs", 3)).toBe("BCE");
  expect(left("ABCDEDF", "lirs", 3)).toBe("CDF");
});

test("lfu counts from the insertion, lfu-lifetime from the first one", () => {
  // C evicts A (two uses); A returns with three uses by lifetime, but without a hit since its insertion.
  expect(left("AABBCAD", "lfu-lifetime", 2)).toBe("AD");
  expect(left("AABBCAD", "lfu", 2)).toBe("BD");
});

test("gdsf: the age of the cache overtakes entries that are not used any more", () => {
  // With a cost of c: A has 2c. C evicts B (c), so that C has c + c; of A and C, D evicts A, the least recently used.
  expect(left("AABC", "gdsf", 2)).toBe("AC");
  expect(left("AABCD", "gdsf", 2)).toBe("CD");
});

test("hyperbolic: uses count per request since the insertion", () => {
  // C: A has 3 uses in 5 requests, B 1 in 2. D: A 3 / 6, C 1 / 2 and fewer uses. E: A 3 / 7, D 1 / 2.
  expect(left("AAABC", "hyperbolic", 2)).toBe("AC");
  expect(left("AAABCD", "hyperbolic", 2)).toBe("AD");
  expect(left("AAABCDE", "hyperbolic", 2)).toBe("DE");
});

test("hits-per-token: of entries with equally many hits the longest is evicted", () => {
  expect(left("AABC", "hits-per-token", 2)).toBe("AC");
  // A radix tree with the nodes AB and C, each hit once.
  const requests = ["AB", "C", "AB", "C", "D"];
  expect(served(requests, { policy: "hits-per-token", blocks: 3, index: "radix-tree" }).hits).toEqual([0, 0, 2, 1, 0]);
  const again = served([...requests, "C", "AB"], { policy: "hits-per-token", blocks: 3, index: "radix-tree" });
  expect(again.hits).toEqual([0, 0, 2, 1, 0, 1, 1]);
});

test("cost-aware: of entries with equal uses the one with the shortest prefix is evicted", () => {
  // log2 of the cost per token: A (tokens 0 to 16) .00038, B (16 to 32) .00113; C is one request younger: .00100 + .00038.
  expect(served(["AB", "C", "D"], { policy: "cost-aware", blocks: 3 }).letters).toBe("BCD");
  expect(served(["AB", "C", "D"], { policy: "lru", blocks: 3 }).letters).toBe("ACD");
});
