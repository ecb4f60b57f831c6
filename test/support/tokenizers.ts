/** GPT-2's printable characters for the 256 bytes: bytes that are not visible Latin-1 are mapped to U+0100 and up. */
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

/** Ids of the special tokens of the chat templates. */
export const chatTokens = {
  ...{ "<|im_start|>": 261, "<|im_end|>": 262, "<|start_header_id|>": 263 },
  ...{ "<|end_header_id|>": 264, "<|eot_id|>": 265, "<|begin_of_text|>": 266 },
} as const;

/** `bytePairTokenizer` with the special tokens of ChatML and Llama 3, and a BOS token that it prepends. */
export const chatTokenizer = JSON.stringify({
  ...(JSON.parse(bytePairTokenizer) as object),
  added_tokens: Object.entries({ "<|end|>": endToken, ...chatTokens }).map(([content, id]) => special(id, content)),
  post_processor: firstToken("<|begin_of_text|>", chatTokens["<|begin_of_text|>"]),
});

function firstToken(content: string, id: number) {
  return {
    type: "TemplateProcessing",
    single: [{ SpecialToken: { id: content, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
    special_tokens: { [content]: { id: content, ids: [id], tokens: [content] } },
  };
}

/** A tokenizer.json like that of Llama 2: a BOS token, spaces as ▁, byte fallback for characters outside the vocabulary. */
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
  post_processor: firstToken("<s>", 1),
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

/** Chat template of Qwen and others (ChatML). */
export const chatMlTemplate =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/** Chat template of Llama 3. */
export const llama3Template =
  "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' " +
  "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}" +
  "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
