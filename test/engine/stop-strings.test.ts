import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Request } from "../../core/cache/request.ts";
import { byteCodec } from "../../engine/model/byte-codec.ts";
import { readTokenizer, type TextStream } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import { StoppingText } from "../../engine/stop-strings.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { folderOf } from "../support/checkpoints.ts";
import { bytePairTokenizer, endToken, fallbackTokenizer } from "../support/tokenizers.ts";
import { conversationTrace, isolatedOutputs, openModel, serve } from "./serving.ts";

/** A stream that decodes token i to `pieces[i]`, and ends with `rest`. */
const streamOf = (pieces: readonly string[], rest = ""): TextStream => ({
  add: (token) => pieces[token],
  end: () => rest,
});

function stopped(pieces: readonly string[], stops: readonly string[]) {
  const text = new StoppingText(streamOf(pieces), stops);
  const out = pieces.map((_, token) => text.add(token));
  return { out: [...out, text.end()], stop: text.stop };
}

describe("by hand", () => {
  test("without stop strings all text is returned immediately", () => {
    expect(stopped(["a", "bc", ""], [])).toEqual({ out: ["a", "bc", "", ""], stop: undefined });
  });

  test("text before the stop string is returned, the stop string and later text are not", () => {
    expect(stopped(["one ", "two three", " four"], ["three"])).toEqual({
      out: ["one ", "two ", "", ""],
      stop: "three",
    });
  });

  test("a possible beginning of a stop string is withheld until later tokens decide", () => {
    expect(stopped(["a\n", "\nUs", "er", ": b"], ["\n\nUser:"])).toEqual({
      out: ["a", "", "", "", ""],
      stop: "\n\nUser:",
    });
    expect(stopped(["a\n", "\nUs", "age"], ["\n\nUser:"])).toEqual({
      out: ["a", "", "\n\nUsage", ""],
      stop: undefined,
    });
  });

  test("text that the decoder still buffers is omitted after a stop string", () => {
    const text = new StoppingText(streamOf(["a stop"], "\uFFFD"), [" stop"]);
    expect([text.add(0), text.end(), text.stop]).toEqual(["a", "", " stop"]);
  });

  test("withheld text is returned at the end of the output", () => {
    expect(stopped(["end", "\n"], ["\n\n"])).toEqual({ out: ["end", "", "\n"], stop: undefined });
  });

  test("two overlapping beginnings of a stop string", () => {
    expect(stopped(["aa", "a", "b"], ["aab"])).toEqual({ out: ["", "a", "", ""], stop: "aab" });
  });

  test("of several stop strings the one that is complete first ends the output; of two that end together, the longer one", () => {
    expect(stopped(["abcde"], ["abcde", "bcd"])).toEqual({ out: ["a", ""], stop: "bcd" });
    expect(stopped(["abcde"], ["cd", "bcd"])).toEqual({ out: ["a", ""], stop: "bcd" });
    expect(stopped(["abcde"], ["bcd", "cd"])).toEqual({ out: ["a", ""], stop: "bcd" });
  });

  test("an empty stop string is refused", () => {
    expect(() => new StoppingText(streamOf([]), ["a", ""])).toThrow("a stop string is empty, expected text");
  });
});

test("for any division into tokens, the text ends before the stop string that is complete first", () => {
  const letters = (maxLength: number, minLength = 0) =>
    fc.string({ unit: fc.constantFrom("a", "b"), minLength, maxLength });
  fc.assert(
    fc.property(fc.array(letters(4), { maxLength: 8 }), fc.array(letters(4, 1), { maxLength: 3 }), (pieces, stops) => {
      const whole = pieces.join("");
      const ends = Array.from({ length: whole.length + 1 }, (_, end) => whole.slice(0, end));
      const first = ends.find((text) => stops.some((stop) => text.endsWith(stop)));
      const longest = Math.max(0, ...stops.filter((stop) => first?.endsWith(stop)).map((stop) => stop.length));
      const { out, stop } = stopped(pieces, stops);
      expect(out.join("")).toBe(first === undefined ? whole : first.slice(0, first.length - longest));
      expect(stop?.length ?? 0).toBe(longest);
    }),
  );
});

describe("with real tokenizers", async () => {
  const bytePair = await readTokenizer(folderOf({ "tokenizer.json": bytePairTokenizer }), 600);
  const fallback = await readTokenizer(folderOf({ "tokenizer.json": fallbackTokenizer }), 600);
  for (const [name, codec] of [
    ["bytes", byteCodec],
    ["byte-level BPE", bytePair],
    ["byte fallback", fallback],
  ] as const) {
    const read = async (written: string, stops: readonly string[]) => {
      const text = new StoppingText(codec.stream(), stops);
      const out = Array.from(await codec.encode(written), (token) => text.add(token));
      return { text: out.join("") + text.end(), stop: text.stop };
    };

    test(`${name}: a stop string that begins and ends inside tokens`, async () => {
      expect(await read("say hello world", ["lo wo"])).toEqual({ text: "say hel", stop: "lo wo" });
    });

    test(`${name}: multi-byte characters before, in and after the stop string are not split`, async () => {
      expect(await read("größe 中文🎉 ende", ["文🎉"])).toEqual({ text: "größe 中", stop: "文🎉" });
      expect(await read("a🎉b", ["b"])).toEqual({ text: "a🎉", stop: "b" });
      expect(await read("a🎉🎊", ["🎊"])).toEqual({ text: "a🎉", stop: "🎊" });
    });
  }

  test("an incomplete character at the end of the output is U+FFFD, which may complete a stop string", async () => {
    const text = new StoppingText(bytePair.stream(), ["x\uFFFD"]);
    const [x, ...emoji] = await bytePair.encode("x🎉");
    expect([x, ...emoji.slice(0, 2)].map((token) => text.add(token))).toEqual(["", "", ""]);
    expect([text.end(), text.stop]).toEqual(["", "x\uFFFD"]);
  });

  test("special tokens are not text", async () => {
    const text = new StoppingText(bytePair.stream(), ["|end|"]);
    expect([text.add(endToken), text.end(), text.stop]).toEqual(["", "", undefined]);
  });
});

test("outputs that end at a stop string are prefixes of the unlimited ones, with cache and batches", async () => {
  const model = await openModel("random:tiny", 48, 4);
  const trace = conversationTrace({ seed: 3 });
  const alone = await isolatedOutputs(model, trace);
  const texts = new Map<number, StoppingText>();
  // Tokens outside the byte range are decoded as, say, <300>, so that many outputs soon contain a stop string.
  const endsWith = ({ id }: Request, { token }: SampledToken) => {
    const text = texts.get(id) ?? new StoppingText(byteCodec.stream(), ["0>", "5>", "7>"]);
    texts.set(id, text);
    text.add(token);
    return text.stop !== undefined;
  };
  const preset = presetRegistry.get("vllm");
  const { tokens, closed } = await serve(model, trace, {
    preset,
    blocks: 48,
    choice: { endTokens: [], isStop: endsWith },
  });
  expect([...closed].sort((a, b) => a - b)).toEqual(tokens.map((_, id) => id));
  const isStop = (token: number) => token > 256 && [0, 5, 7].includes(token % 10);
  for (const [id, written] of tokens.entries()) {
    const length = Math.min(written.length, alone.tokens[id].length);
    expect(written.slice(0, length)).toEqual(alone.tokens[id].slice(0, length));
    expect(written.slice(0, -1).filter(isStop)).toEqual([]);
    expect(isStop(written.at(-1)!) || written.length === trace.maxOutputTokens[id]).toBe(true);
  }
  expect(tokens.filter((written) => isStop(written.at(-1)!)).length).toBeGreaterThan(3);
});
