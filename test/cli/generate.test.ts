import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import { checkpointOf } from "../support/checkpoints.ts";
import { chatMlTemplate, chatTokenizer, chatTokens, endToken } from "../support/tokenizers.ts";
import { ended, newFolder, refusal, start } from "./program.ts";

/** The model cache of all these tests. */
const cache = newFolder();

const begin = (args: readonly string[], folder = newFolder()) =>
  start(folder, ["generate", ...args], { XDG_CACHE_HOME: cache });

async function generate(args: readonly string[], input?: string) {
  const child = begin([...args, "--json"]);
  child.stdin?.end(input);
  const { code, stdout, stderr } = await ended(child);
  if (code !== 0 || stderr !== "") throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

const config = randomConfig("tiny");
const chatModel = (files: Record<string, unknown> = {}, changed: Record<string, unknown> = {}) =>
  checkpointOf(config, randomWeights(config, 1), {
    config: changed,
    files: { "tokenizer.json": chatTokenizer, ...files },
  });

const hello = ["hello", "--max-tokens", "12", "--ignore-eos"];

describe.concurrent("generated text", () => {
  test("--json has all fields, and a seed samples the same tokens beside any other prompts", async () => {
    const drawn = ["--temperature", "1", "--max-tokens", "6", "--ignore-eos"];
    const document = await generate(["What is a cache?", "What is a cat?", ...drawn, "--seed", "3,4"]);
    expect(document).toMatchObject({
      ...{ schema: "generate/1", model: "random:tiny", bits: 32, chat: false, system: null, maxTokens: 6 },
      sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, logitBias: {} },
      answers: [
        { prompt: "What is a cache?", cachedTokens: 0, seed: 3, finish: "length", stop: null, logprobs: null },
        { prompt: "What is a cat?", cachedTokens: 0, seed: 4, finish: "length" },
      ],
    });
    const [, second] = document.answers;
    expect(second.promptTokens).toEqual([...Buffer.from("What is a cat?")]);
    expect(second.tokens).toHaveLength(6);
    expect(second.ttftMs).toBeGreaterThan(0);
    expect(second.tokensPerS).toBeGreaterThan(0);
    const [alone] = (await generate(["What is a cat?", ...drawn, "--seed", "4"])).answers;
    expect([alone.text, alone.tokens]).toEqual([second.text, second.tokens]);
  });

  test("a stop string across tokens ends an output, and its text and all later text are not printed", async () => {
    const [free] = (await generate(hello)).answers;
    // No token has more than five characters.
    const stop = free.text.slice(3, 9);
    const [stopped] = (await generate([...hello, "--stop", "not there", "--stop", stop])).answers;
    expect(stopped).toMatchObject({ finish: "stop-string", stop, text: free.text.slice(0, free.text.indexOf(stop)) });
    expect(stopped.tokens.length).toBeLessThan(free.tokens.length);
    expect(stopped.tokens).toEqual(free.tokens.slice(0, stopped.tokens.length));
    const { code, stdout } = await ended(begin([...hello, "--stop", stop]));
    expect([code, stdout]).toEqual([0, `${stopped.text}\n`]);
  });

  test("a stop token ends an output, is counted, and has no text", async () => {
    const [free] = (await generate(hello)).answers;
    const token = free.tokens[2];
    const [stopped] = (await generate([...hello, "--stop-token", String(token)])).answers;
    const end = free.tokens.indexOf(token) + 1;
    expect(stopped).toMatchObject({ finish: "stop-token", stop: null, tokens: free.tokens.slice(0, end) });
    expect(free.text.startsWith(stopped.text)).toBe(true);
  });

  test("probabilities of the whole vocabulary sum to 1, and greedy decoding samples the most likely token", async () => {
    const [{ logprobs, tokens }] = (await generate([...hello, "--logprobs", "512"])).answers;
    expect(logprobs.map(({ token }: { token: number }) => token)).toEqual(tokens);
    for (const { token, text, logprob, top } of logprobs) {
      expect(top[0]).toEqual({ token, text, logprob });
      expect(new Set(top.map((one: { token: number }) => one.token)).size).toBe(512);
      const sum = top.reduce((all: number, one: { logprob: number }) => all + Math.exp(one.logprob), 0);
      expect(sum).toBeCloseTo(1, 6);
    }
  });

  test("a logit bias determines the tokens, and penalties prevent repetition", async () => {
    const biased = await generate(["hi", "--max-tokens", "3", "--logit-bias", "65=100", "--logit-bias", "66=100"]);
    const [{ text }] = biased.answers;
    expect(text).toMatch(/^[AB]{3}$/);
    const once = await generate([
      ...["hi", "--max-tokens", "2", "--presence-penalty", "50"],
      ...["--logit-bias", "65=100", "--logit-bias", "66=100"],
    ]);
    expect(["AB", "BA"]).toContain(once.answers[0].text);
  });

  test("prompts are read from standard input, one per line", async () => {
    const { answers } = await generate(["zero", "-", "--max-tokens", "1"], "one\r\n\ntwo tokens");
    expect(answers.map(({ prompt }: { prompt: string }) => prompt)).toEqual(["zero", "one", "two tokens"]);
  });

  test("4-bit weights have different logprobs", async () => {
    const [[rounded], [exact]] = await Promise.all(
      [["--bits", "4"], []].map(async (bits) => (await generate([...hello, ...bits, "--logprobs", "0"])).answers),
    );
    expect(rounded.logprobs[0].logprob).not.toBe(exact.logprobs[0].logprob);
  });

  test("text and a table of logprobs", async () => {
    const { stdout, stderr } = await ended(
      begin(["hi", "--max-tokens", "2", "--logit-bias", "65=100", "--logprobs", "1"]),
    );
    expect(stdout).toMatch(
      /^AA\n {2}token {2}text +logprob {2}most likely\n( +65 {2}"A" +-\d+\.\d{3} {2}".*" -\d+\.\d{3}\n){2}$/,
    );
    expect(stderr).toMatch(
      /^2 prompt tokens, 0 of them cached; first token after .*, then \d+ tokens\/s\nA model with random weights generates .*\n$/,
    );
  });
});

describe.concurrent("a model in a folder", () => {
  test("--chat applies the model's template, and the second prompt hits the system message", async () => {
    const model = chatModel({ "tokenizer_config.json": { chat_template: chatMlTemplate } });
    const chat = ["--model", model, "--chat", "--system", "Be brief and kind.", "--max-tokens", "2"];
    const { answers } = await generate(["Who?", "Why?", ...chat]);
    expect(answers[0].promptTokens[0]).toBe(chatTokens["<|im_start|>"]);
    expect(answers[0].promptTokens.filter((token: number) => token === chatTokens["<|im_end|>"])).toHaveLength(2);
    expect(answers.map(({ cachedTokens }: { cachedTokens: number }) => cachedTokens)).toEqual([0, 32]);
  });

  test("end tokens of generation_config.json are used, its sampling options are not", async () => {
    const generation = { eos_token_id: [65, 66], temperature: 1.5, top_k: 3, do_sample: true };
    const model = chatModel({ "generation_config.json": generation });
    const { answers, sampling } = await generate(["hi", "--model", model, "--logit-bias", "66=100"]);
    expect(sampling).toMatchObject({ temperature: 0, topK: 0 });
    expect(answers[0]).toMatchObject({ tokens: [66], finish: "end-token", text: "" });
    const more = ["--logit-bias", "66=100", "--ignore-eos", "--max-tokens", "3"];
    expect((await generate(["hi", "--model", model, ...more])).answers[0].tokens).toEqual([66, 66, 66]);
  });

  test("a special token as stop string is refused with its token id", async () => {
    const folder = newFolder();
    const args = ["generate", "hi", "--model", chatModel(), "--stop", "<|im_end|>"];
    expect(await refusal(folder, args)).toBe(
      `--stop "<|im_end|>" is a special token, which is not in the text of an output; give --stop-token ${chatTokens["<|im_end|>"]}`,
    );
    expect(endToken).toBeLessThan(config.vocabulary);
  });

  test("an exception of the chat template is one line", async () => {
    const model = chatModel({ "chat_template.jinja": "{{ raise_exception('roles must\n alternate') }}" });
    expect(await refusal(newFolder(), ["generate", "hi", "--chat", "--model", model])).toMatch(
      /chat_template\.jinja: chat template: roles must alternate$/,
    );
  });
});

describe.concurrent("invalid options are refused before any text is generated", () => {
  const cases: [args: string[], message: string | RegExp][] = [
    [[""], "the prompt is empty, expected text"],
    [["a", ""], "prompt 2 is empty, expected text"],
    [["hi", "--stop", ""], "--stop is empty, expected text"],
    [["hi", "--stop-token", "512"], "--stop-token has token 512, expected one below 512, the model's vocabulary"],
    [["hi", "--logit-bias", "9999=1"], "--logit-bias has token 9999, expected one below 512, the model's vocabulary"],
    [["hi", "--logit-bias", "A=1"], '--logit-bias is "A=1", expected TOKEN=NUMBER with a token id'],
    [["hi", "--logit-bias", "1=x"], '--logit-bias 1 is "x", expected a number'],
    [["hi", "--logit-bias", "1=2", "--logit-bias", "1=3"], "--logit-bias 1 is given twice, expected once"],
    [["hi", "--logit-bias", "1=1000"], "--logit-bias of token 1 is 1000, expected a number from -100 to 100"],
    [["hi", "--top-p", "0"], "--top-p is 0, expected a number above 0, at most 1"],
    [["hi", "--min-p", "2"], "--min-p is 2, expected a number from 0 to 1"],
    [["hi", "--repetition-penalty", "-1"], "--repetition-penalty is -1, expected a number above 0, at most 100"],
    [["hi", "--logprobs", "513"], "--logprobs is 513, expected at most 512, the model's vocabulary"],
    [["hi", "--seed", "1,x"], '--seed is "x", expected a whole number from 0 to 4294967295'],
    [["hi", "--bits", "16"], "--bits is 16, expected 32, 8 or 4 with --target cpu"],
    [["hi", "--bits", "5"], '--bits is "5", expected 32, 16, 8 or 4'],
    [["hi", "--system", "Be brief."], "--system needs --chat"],
    [["hi", "--chat"], "random models have no chat template; give a plain prompt"],
    [["-", "-"], "- is given twice, expected once: standard input is read once"],
    [
      ["hi", "--max-tokens", "1000000000"],
      "the prompt has 2 tokens, which with 1000000000 output tokens exceed the model's 131072 positions",
    ],
  ];
  test.each(cases)("kvlab generate %j", async (args, message) => {
    expect(await refusal(newFolder(), ["generate", ...args])).toBe(message);
  });

  test("standard input without a line", async () => {
    const child = begin(["-"]);
    child.stdin?.end("\n\n");
    expect(await ended(child)).toEqual({
      ...{ code: 2, stdout: "" },
      stderr: "kvlab: standard input is empty, expected a prompt on each line\n",
    });
  });
});

const long = ["hello", "another", "--max-tokens", "100000", "--ignore-eos"];

test("closing the output ends the program without a message, also during a step", async () => {
  const child = begin(long);
  child.stdout?.once("data", () => child.stdout?.destroy());
  const { code, stderr } = await ended(child);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

describe("a signal", () => {
  /** Sends a signal after the first text. */
  async function interrupted(args: readonly string[]) {
    const child = begin(args);
    child.stdout?.once("data", () => child.kill("SIGINT"));
    return ended(child);
  }

  test("keeps the partial output and reports the interruption", async () => {
    const { code, stdout, stderr } = await interrupted(long);
    expect(code).toBe(130);
    expect(stdout).toMatch(/\S.*\n$/);
    expect(stderr).toMatch(
      /^5 prompt tokens, 0 of them cached; first token after .*; interrupted\nkvlab: interrupted\n$/,
    );
  });

  test("leaves a complete document, with empty outputs of the remaining prompts", async () => {
    // Nothing is printed before the end, so a slow machine needs another, longer try.
    const tried = async (waitMs: number) => {
      const child = begin([...long, "--json"]);
      const timer = setTimeout(() => child.kill("SIGINT"), waitMs);
      const { code, stdout, stderr } = await ended(child);
      clearTimeout(timer);
      // The program had not started to handle signals.
      if (code === null) return [];
      expect([code, stderr]).toEqual([130, "kvlab: interrupted\n"]);
      return stdout === "" ? [] : JSON.parse(stdout).answers;
    };
    let [first, second] = await tried(3000);
    for (let waitMs = 6000; !first?.text && waitMs < 60_000; waitMs *= 2) [first, second] = await tried(waitMs);
    expect(first).toMatchObject({ finish: "interrupted", text: expect.stringMatching(/./) });
    expect(second).toMatchObject({ finish: "interrupted", text: "", tokens: [], ttftMs: null, tokensPerS: null });
  });

  test("ends waiting for standard input", async () => {
    const child = begin(["-"]);
    // More than the pipe's buffer: the write completes when the program reads.
    child.stdin?.write("hello\n".repeat(100_000), () => child.kill("SIGINT"));
    expect(await ended(child)).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  });
});

test("the runtime leaves no telemetry files, so it sends nothing", async () => {
  const [home, temporary] = [newFolder(), newFolder()];
  // With CI set it would not do so in any case.
  const environment = { CI: undefined, ORT_DISABLE_TELEMETRY: undefined, XDG_CACHE_HOME: home, TMPDIR: temporary };
  const { code } = await ended(start(temporary, ["generate", ...hello], environment));
  const left = readdirSync(temporary).filter((name) => !name.startsWith("tsx-"));
  expect({ code, left, home: readdirSync(home) }).toEqual({ code: 0, left: [], home: ["kvlab"] });
});
