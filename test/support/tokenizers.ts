/** Printable characters for the 256 bytes, as GPT-2 has them: bytes that are no visible Latin-1 go to U+0100 and on. */
function byteAlphabet(): string[] {
  const visible = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(visible(byte) ? byte : next++));
}

const special = (id: number, content: string) => ({
  ...{ id, content, special: true, normalized: false },
  ...{ single_word: false, lstrip: false, rstrip: false },
});

const bpe = { type: "BPE", dropout: null, continuing_subword_prefix: null, end_of_word_suffix: null };

export const endToken = 260;

/** A tokenizer.json like those of GPT-2, Llama 3 and Qwen: byte-level BPE, here with four merges. */
export const bytePairTokenizer = JSON.stringify({
  ...{ version: "1.0", truncation: { max_length: 5, strategy: "LongestFirst", stride: 0, direction: "Right" } },
  ...{ padding: null, normalizer: null, post_processor: null },
  added_tokens: [special(endToken, "<|end|>")],
  pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
  decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: {
    ...{ ...bpe, unk_token: null, fuse_unk: false, byte_fallback: false },
    vocab: Object.fromEntries([...byteAlphabet(), "he", "ll", "hell", "Ġw"].map((token, id) => [token, id])),
    merges: ["h e", "l l", "he ll", "Ġ w"],
  },
});

/** A tokenizer.json like that of Llama 2: a first token, spaces as ▁, bytes for what the vocabulary does not have. */
export const fallbackTokenizer = JSON.stringify({
  ...{ version: "1.0", truncation: null, padding: null },
  added_tokens: [special(1, "<s>"), special(265, "<|end|>")],
  normalizer: {
    type: "Sequence",
    normalizers: [
      { type: "Prepend", prepend: "▁" },
      { type: "Replace", pattern: { String: " " }, content: "▁" },
    ],
  },
  pre_tokenizer: null,
  post_processor: {
    type: "TemplateProcessing",
    single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
    special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
  },
  decoder: {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  },
  model: {
    ...{ ...bpe, unk_token: "<unk>", fuse_unk: true, byte_fallback: true },
    vocab: Object.fromEntries([
      ["<unk>", 0],
      ["<s>", 1],
      ...Array.from({ length: 256 }, (_, byte) => [
        `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
        byte + 2,
      ]),
      ...["▁", "a", "b", "x", "▁a", "▁b", "xx"].map((token, i) => [token, 258 + i]),
    ]),
    merges: ["▁ a", "▁ b"],
  },
});
