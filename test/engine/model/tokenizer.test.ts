import fc from "fast-check";
import { Tokenizer } from "tokenizers";
import { expect, test } from "vitest";
import { byteCodec } from "../../../engine/model/byte-codec.ts";
import { readTokenizer, type TextCodec } from "../../../engine/model/tokenizer.ts";
import { folderOf } from "../../support/checkpoints.ts";
import { bytePairTokenizer, endToken, fallbackTokenizer } from "../../support/tokenizers.ts";

const vocabulary = 600;
const bytePair = await readTokenizer(folderOf({ "tokenizer.json": bytePairTokenizer }), vocabulary);
const fallback = await readTokenizer(folderOf({ "tokenizer.json": fallbackTokenizer }), vocabulary);

const codecs: [string, TextCodec][] = [
  ["bytes", byteCodec],
  ["byte-level BPE", bytePair],
  ["BPE with byte fallback", fallback],
];

/** Texts in many scripts, with characters of one to four bytes and joined ones. */
const texts = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "hello",
        " world",
        "wörld",
        "中文",
        "🎉",
        "👩‍👩‍👧",
        "नमस्ते",
        "\n\n",
        "  ",
        "\u0301",
        "é",
        "\uFEFF",
      ),
      fc.string({ unit: "grapheme", maxLength: 6 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

function streamed(codec: TextCodec, tokens: ArrayLike<number>): string[] {
  const stream = codec.stream();
  return [...Array.from(tokens, (token) => stream.add(token)), stream.end()];
}

for (const [name, codec] of codecs) {
  test(`${name}: any text is restored by decode and by streaming, without incomplete characters in between`, async () => {
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        const tokens = await codec.encode(text);
        expect(codec.decode(tokens)).toBe(text);
        const pieces = streamed(codec, tokens);
        expect(pieces.join("")).toBe(text);
        if (text.includes("\uFFFD")) return;
        expect(pieces.filter((piece) => piece.includes("\uFFFD"))).toEqual([]);
        expect(pieces.at(-1)).toBe("");
      }),
    );
  });

  test(`${name}: an emoji of four tokens is returned with the last of them`, async () => {
    const tokens = await codec.encode("🎉");
    const bytes = tokens.slice(-4);
    expect(streamed(codec, bytes)).toEqual(["", "", "", "🎉", ""]);
  });

  test(`${name}: an incomplete character at the end is returned as U+FFFD`, async () => {
    const tokens = [...(await codec.encode("🎉"))].slice(-4);
    const letter = [...(await codec.encode("xx"))].slice(-1);
    expect(streamed(codec, [...tokens.slice(0, 3), ...letter]).join("")).toMatch(/^\uFFFD+x$/);
    expect(streamed(codec, tokens.slice(0, 3)).join("")).toMatch(/^\uFFFD+$/);
  });
}

test("the streamed text of any tokens of a byte-level vocabulary is the text of all of them", () => {
  for (const codec of [byteCodec, bytePair]) {
    fc.assert(
      fc.property(fc.array(fc.nat(270), { maxLength: 40 }), (tokens) => {
        expect(streamed(codec, tokens).join("")).toBe(codec.decode(tokens));
      }),
    );
  }
});

test("ids and text are those of the library", async () => {
  const library = Tokenizer.fromString(bytePairTokenizer);
  library.disableTruncation(); // The file cuts texts after five tokens, which is for training.
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      const ids = (await library.encode(text)).getIds();
      expect([...(await bytePair.encode(text))]).toEqual(ids);
      expect(bytePair.decode(ids)).toBe(await library.decode(ids, true));
    }),
    { numRuns: 30 },
  );
});

test("merges are applied: hello is hell and o", async () => {
  const pieces = streamed(bytePair, await bytePair.encode("hello world"));
  expect(pieces).toEqual(["hell", "o", " w", "o", "r", "l", "d", ""]);
});

test("special tokens are encoded from text, and omitted by decode", async () => {
  const tokens = await bytePair.encode("a<|end|>b");
  expect([...tokens]).toContain(endToken);
  expect(bytePair.decode(tokens)).toBe("ab");
  expect(streamed(bytePair, tokens).join("")).toBe("ab");
});

test("the space of a first token is omitted, and that of a token after a special token is kept", async () => {
  // Decoders of this kind omit the space before the first token of a list.
  const tokens = [...(await fallback.encode("a b"))];
  const [start, a, b] = tokens;
  expect(streamed(fallback, tokens).join("")).toBe("a b");
  expect(streamed(fallback, [start, a, start, b]).join("")).toBe("a b");
  expect(fallback.decode([start, a, start, b])).toBe("a b");
});

test("ids above the tokenizer's vocabulary are not text: vocabularies are padded", () => {
  expect(bytePair.decode([vocabulary - 1])).toBe("");
  expect(streamed(bytePair, [vocabulary - 1, vocabulary - 1])).toEqual(["", "", ""]);
});

test("text that never becomes complete is returned after a limit", async () => {
  const [first] = await bytePair.encode("🎉");
  const pieces = streamed(
    bytePair,
    Array.from({ length: 200 }, () => first),
  );
  expect(pieces.join("")).toBe("\uFFFD".repeat(200));
  expect(pieces.slice(0, -1).join("").length).toBeGreaterThan(190);
});

test("tokens of random models outside the byte range are decoded to their number", () => {
  expect(byteCodec.decode([104, 105, 300, 0xe4, 300, 256, 33])).toBe("hi<300>\uFFFD<300>!");
});

test("a text with a token outside the model's vocabulary is refused", async () => {
  const folder = folderOf({ "tokenizer.json": bytePairTokenizer });
  const narrow = await readTokenizer(folder, endToken);
  await expect(narrow.encode("<|end|>")).rejects.toThrow(
    `${folder}/tokenizer.json: the text has token ${endToken}, expected one below ${endToken}, the model's vocabulary`,
  );
});

async function failure(files: Record<string, unknown>): Promise<string> {
  const folder = folderOf(files);
  try {
    await readTokenizer(folder, vocabulary);
  } catch (error) {
    expect(error).toHaveProperty("name", "InputError");
    expect((error as Error).message).not.toContain("\n");
    return (error as Error).message.replaceAll(`${folder}/`, "").replaceAll(folder, "FOLDER");
  }
  return "nothing: it did not fail";
}

test("a tokenizer.json that is missing or invalid is refused", async () => {
  expect(await failure({})).toBe("tokenizer.json: no such file");
  expect(await failure({ "tokenizer.json": "{}" })).toMatch(/^tokenizer\.json: not a tokenizer: /);
  expect(await failure({ "tokenizer.json": "[" })).toMatch(/^tokenizer\.json: not a tokenizer: /);
});
