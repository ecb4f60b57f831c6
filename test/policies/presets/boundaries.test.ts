import { describe, expect, test } from "vitest";
import { everyPreset, liveOf, serveAlone, tokens } from "./presets.ts";

/*
 * Prompts that end at the end of a block, or one token after it, in an empty unlimited cache. B is the preset's default block
 * size, which is 1 in the token trees. By default an output has one token, which is never computed. For pools the first
 * prompt is marked as a prefix. For k = 1, 2, 3:
 *
 *   same      L = k·B, the same prompt a second time
 *   longer    then with one more token: L = k·B + 1
 *   same1     L = k·B + 1, the same prompt a second time
 *   longer1   then with one more token: L = k·B + 2
 *   answered  L = k·B, with an output of B + 1 tokens, of which B are computed; then prompt, output and one more token
 *   parted    three blocks, then a prompt that diverges from them in the middle of the second one (at the third token, if B = 1)
 *
 * The hit tokens:
 *
 *   vllm, nano-vllm  whole blocks, at least one token is computed: ⌊(L − 1) ÷ B⌋
 *   lmdeploy         blocks that end before L, which are the same
 *   turbomind        the same, and the beginning of a block that would end before L: only in `parted`
 *   vllm-v0          the same; later versions (0.8) all but the last token of a prompt that is cached to its end
 *   trt-llm          at most L − 1 tokens, also a part of the last block; one token of an incomplete last block in `longer1`
 *   sglang, mini-sglang, lightllm   all cached tokens, at most L − 1
 *   tgi              all cached tokens of prompts, at most L − 1; outputs are not cached
 *   roseinfer        a whole prompt, up to its last token, without recomputation; nothing else is a hit
 *   prefix-pool, prefix-trie   the whole blocks of the marked prefix; with `parted` the trie has one block in common
 */
type Row = readonly [same: string, longer: string, same1: string, longer1: string, answered: string, parted: number];

const rows: Record<string, Row> = {
  lightllm: ["0 1 2", "1 2 3", "1 2 3", "2 3 4", "2 3 4", 2],
  lmdeploy: ["0 64 128", "64 128 192", "64 128 192", "64 128 192", "128 192 256", 64],
  "mini-sglang": ["0 1 2", "1 2 3", "1 2 3", "2 3 4", "2 3 4", 2],
  "nano-vllm": ["0 256 512", "256 512 768", "256 512 768", "256 512 768", "512 768 1024", 256],
  "prefix-pool": ["16 32 48", "16 32 48", "16 32 48", "16 32 48", "16 32 48", 0],
  "prefix-trie": ["16 32 48", "16 32 48", "16 32 48", "16 32 48", "16 32 48", 16],
  roseinfer: ["64 128 192", "0 0 0", "65 129 193", "0 0 0", "0 0 0", 0],
  sglang: ["0 1 2", "1 2 3", "1 2 3", "2 3 4", "2 3 4", 2],
  "sglang@2501": ["0 1 2", "1 2 3", "1 2 3", "2 3 4", "2 3 4", 2],
  tgi: ["0 1 2", "1 2 3", "1 2 3", "2 3 4", "1 2 3", 2],
  "tgi-simple": ["0 0 0", "0 0 0", "0 0 0", "0 0 0", "0 0 0", 0],
  "trt-llm": ["31 63 95", "32 64 96", "32 64 96", "33 65 97", "64 96 128", 48],
  turbomind: ["0 64 128", "64 128 192", "64 128 192", "64 128 192", "128 192 256", 96],
  vllm: ["0 16 32", "16 32 48", "16 32 48", "16 32 48", "32 48 64", 16],
  "vllm@0.19": ["0 16 32", "16 32 48", "16 32 48", "16 32 48", "32 48 64", 16],
  "vllm-v0": ["0 16 32", "16 32 48", "16 32 48", "16 32 48", "32 48 64", 16],
  "vllm-v0@0.8": ["15 31 47", "16 32 48", "16 32 48", "16 32 48", "32 48 64", 16],
};

/** Tokens that presets recompute of a completely cached prompt. */
const computedOfFullHit: Record<string, number> = {
  "prefix-pool": 1,
  "prefix-trie": 1,
  roseinfer: 0,
};

const more = "+";

describe.each(everyPreset)("%s", (name, { blockTokens }) => {
  const [same, longer, same1, longer1, answered, parted] = rows[name];
  const unlimited = () => liveOf(name, { blocks: undefined });

  test.each([
    ["k·B", 0, same, longer],
    ["k·B + 1", 1, same1, longer1],
  ])("a prompt of %s tokens twice, then with one more", (_length, beyond, twice, extended) => {
    const seen = [1, 2, 3].map((k) => {
      const cache = unlimited();
      const prompt = tokens(k * blockTokens + beyond);
      const options = { markedTokens: prompt.length };
      expect(serveAlone(cache, prompt, options)).toEqual({ found: 0, computed: prompt.length });
      const again = serveAlone(cache, prompt, options);
      const full = again.found === prompt.length;
      expect(again.computed).toBe(full ? computedOfFullHit[name] : prompt.length - again.found);
      const further = serveAlone(cache, prompt + more, options);
      expect(further.computed).toBe(prompt.length + 1 - further.found);
      // Content that was computed twice has not evicted the cached one.
      expect(serveAlone(cache, prompt, options)).toEqual(again);
      return [again.found, further.found];
    });
    expect(seen.map(([found]) => found).join(" ")).toBe(twice);
    expect(seen.map(([, found]) => found).join(" ")).toBe(extended);
  });

  test("an output that completes a block, in the prompt of the next turn", () => {
    const found = [1, 2, 3].map((k) => {
      const cache = unlimited();
      const prompt = tokens(k * blockTokens);
      const output = tokens(blockTokens + 1, 5000);
      const options = { markedTokens: prompt.length };
      serveAlone(cache, prompt, { ...options, output });
      return serveAlone(cache, prompt + output + more, options).found;
    });
    expect(found.join(" ")).toBe(answered);
  });

  test("a prompt that diverges from the cached one within a block", () => {
    const cache = unlimited();
    const prompt = tokens(3 * blockTokens);
    const common = blockTokens + Math.max(1, blockTokens / 2);
    const other = prompt.slice(0, common) + tokens(2 * blockTokens, 5000);
    serveAlone(cache, prompt, { markedTokens: prompt.length });
    expect(serveAlone(cache, other, { markedTokens: other.length }).found).toBe(parted);
  });
});
