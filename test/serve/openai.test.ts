import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { chatModel, Server, startMs } from "./server.ts";

let server: Server;
let client: OpenAI;
const model = "tiny-chat";
beforeAll(async () => {
  server = await Server.start(["--model", chatModel(), "--served-model-name", model, "--preset", "vllm", "--audit"]);
  client = server.client();
}, startMs);

const greedy = { model, temperature: 0, max_tokens: 12 };
const own = { ignore_eos: true };
const question = [{ role: "user" as const, content: "What is a cache?" }];

async function collected(stream: AsyncIterable<OpenAI.Completion>) {
  const texts: string[] = [];
  let finish: string | null = null;
  let usage: OpenAI.CompletionUsage | undefined;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    if (choice) texts.push(choice.text);
    finish = choice?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  return { texts, text: texts.join(""), finish, usage };
}

describe("completions", () => {
  test("a completion has text, a reason of its end, and usage", async () => {
    const completion = await client.completions.create({ ...greedy, ...own, prompt: "hello world" });
    expect(completion).toMatchObject({ object: "text_completion", model });
    expect(completion.id).toMatch(/^cmpl-/);
    expect(completion.choices).toHaveLength(1);
    expect(completion.choices[0]).toMatchObject({ index: 0, finish_reason: "length", logprobs: null });
    expect(completion.choices[0].text.length).toBeGreaterThan(0);
    const { prompt_tokens: prompt, completion_tokens: output, total_tokens: total } = completion.usage!;
    expect([output, total]).toEqual([12, prompt + 12]);
  });

  test("a stream has the same text in parts, and usage if it is requested", async () => {
    const request = { ...greedy, ...own, prompt: "a stream of text" };
    const whole = await client.completions.create(request);
    const streamed = await collected(
      await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }),
    );
    expect(streamed.text).toBe(whole.choices[0].text);
    expect(streamed.texts.length).toBeGreaterThan(2);
    expect(streamed.finish).toBe("length");
    expect(streamed.usage).toMatchObject({ ...whole.usage, prompt_tokens_details: expect.anything() });
    const without = await collected(await client.completions.create({ ...request, stream: true }));
    expect(without.usage).toBeUndefined();
  });

  test("a repeated prompt reports its cached tokens, another cache_salt none", async () => {
    const prompt = "The same long prompt again and again, of more than three blocks of sixteen tokens each.";
    const cached = async (more: object = {}) => {
      const { usage } = await client.completions.create({ ...greedy, ...own, prompt, ...more });
      return usage!.prompt_tokens_details!.cached_tokens!;
    };
    expect(await cached()).toBe(0);
    expect(await cached()).toBeGreaterThanOrEqual(48);
    expect(await cached({ cache_salt: "tenant a" })).toBe(0);
    expect(await cached({ cache_salt: "tenant a" })).toBeGreaterThanOrEqual(48);
    expect(await cached({ cache_salt: "tenant b" })).toBe(0);
  });

  test("a prompt that repeats an earlier prompt and its output finds both in the cache", async () => {
    const prompt = "A conversation that goes on after its first answer";
    const first = await client.completions.create({ ...greedy, ...own, max_tokens: 40, prompt, logprobs: 0 });
    const { usage } = await client.completions.create({
      ...greedy,
      ...own,
      prompt: `${prompt}${first.choices[0].text} More.`,
    });
    const whole = first.usage!.prompt_tokens;
    expect(usage!.prompt_tokens_details!.cached_tokens).toBeGreaterThanOrEqual(Math.floor(whole / 16) * 16);
  });

  test("a stop string ends the text before it", async () => {
    const request = { ...greedy, ...own, max_tokens: 24, prompt: "hello" };
    const [free] = (await client.completions.create(request)).choices;
    const stop = free.text.slice(4, 9);
    for (const stream of [false, true] as const) {
      const stopped = stream
        ? await collected(await client.completions.create({ ...request, stop: ["not there", stop], stream }))
        : await client.completions
            .create({ ...request, stop })
            .then(({ choices: [one], usage }) => ({ text: one.text, finish: one.finish_reason, usage }));
      expect(stopped).toMatchObject({ text: free.text.slice(0, free.text.indexOf(stop)), finish: "stop" });
      if (stopped.usage) expect(stopped.usage.completion_tokens).toBeLessThan(24);
    }
  });

  test("n outputs with a seed are reproducible and differ from each other", async () => {
    const request = { model, ...own, prompt: "draw", max_tokens: 8, temperature: 1, seed: 7, n: 3 };
    const texts = async () =>
      (await client.completions.create(request)).choices.map(({ index, text }) => [index, text]);
    const first = await texts();
    expect(first.map(([index]) => index)).toEqual([0, 1, 2]);
    expect(new Set(first.map(([, text]) => text)).size).toBe(3);
    expect(await texts()).toEqual(first);
  });

  test("best_of returns the outputs with the largest mean log probability", async () => {
    const request = { model, ...own, prompt: "draw", max_tokens: 6, temperature: 1, seed: 3, logprobs: 0 };
    const mean = ({ logprobs }: OpenAI.CompletionChoice) => {
      const values = logprobs!.token_logprobs!;
      return values.reduce((sum, one) => sum + one, 0) / values.length;
    };
    const all = (await client.completions.create({ ...request, n: 5 })).choices;
    const best = (await client.completions.create({ ...request, n: 2, best_of: 5 })).choices;
    const expected = all.toSorted((a, b) => mean(b) - mean(a)).slice(0, 2);
    expect(best.map(({ text }) => text)).toEqual(expected.map(({ text }) => text));
  });

  test("logprobs has the tokens, the likeliest ones and their places in the text", async () => {
    const request = { ...greedy, ...own, prompt: "hello", logprobs: 2 };
    const {
      choices: [choice],
    } = await client.completions.create(request);
    const { tokens, token_logprobs: logprobs, top_logprobs: top, text_offset: offsets } = choice.logprobs!;
    expect([tokens!.length, logprobs!.length, top!.length, offsets!.length]).toEqual([12, 12, 12, 12]);
    logprobs!.forEach((logprob, i) => {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(Math.max(...Object.values(top![i]))).toBeCloseTo(logprob, 5);
    });
    expect(offsets![0]).toBe(0);
  });

  test("several prompts, and prompts of token ids", async () => {
    const prompts = ["one", "two"];
    const both = await client.completions.create({ ...greedy, ...own, prompt: prompts });
    const alone = await Promise.all(prompts.map((prompt) => client.completions.create({ ...greedy, ...own, prompt })));
    expect(both.choices.map(({ text }) => text)).toEqual(alone.map(({ choices }) => choices[0].text));
    expect(both.usage!.prompt_tokens).toBe(alone[0].usage!.prompt_tokens + alone[1].usage!.prompt_tokens);
    const { usage } = await client.completions.create({ ...greedy, prompt: [10, 20, 30] });
    expect(usage!.prompt_tokens).toBe(3);
  });

  test("penalties and a bias change the output", async () => {
    const texts = new Set<string>();
    for (const more of [{}, { frequency_penalty: 2 }, { logit_bias: { "65": 100 } }]) {
      const { choices } = await client.completions.create({
        ...greedy,
        ...own,
        max_tokens: 24,
        prompt: "repeat repeat",
        ...more,
      });
      texts.add(choices[0].text);
    }
    expect(texts.size).toBe(3);
    expect([...texts][2]).toBe([...texts][2][0].repeat(24));
  });
});

describe("chat", () => {
  test("a chat completion is that of the rendered conversation", async () => {
    const request = { ...greedy, ...own, messages: [{ role: "system" as const, content: "Be brief." }, ...question] };
    const chat = await client.chat.completions.create(request);
    expect(chat).toMatchObject({ object: "chat.completion", model });
    expect(chat.choices[0]).toMatchObject({ finish_reason: "length", message: { role: "assistant", refusal: null } });
    const parts = await client.chat.completions.create({
      ...request,
      messages: [
        request.messages[0],
        {
          role: "user",
          content: [
            { type: "text", text: "What is " },
            { type: "text", text: "a cache?" },
          ],
        },
      ],
    });
    expect(parts.choices[0].message.content).toBe(chat.choices[0].message.content);
    expect(parts.usage!.prompt_tokens_details!.cached_tokens).toBeGreaterThan(0);
  });

  test("the client's stream helper assembles the same message", async () => {
    const request = { ...greedy, ...own, messages: question };
    const chat = await client.chat.completions.create(request);
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0].message.content).toBe(chat.choices[0].message.content);
    expect(final.choices[0].finish_reason).toBe("length");
    expect(final.usage!.total_tokens).toBe(chat.usage!.total_tokens);
  });

  test("n streamed outputs have their own text and end", async () => {
    const request = { model, ...own, messages: question, max_completion_tokens: 6, temperature: 1, seed: 5, n: 2 };
    const whole = await client.chat.completions.create(request);
    const texts = ["", ""];
    const ends: (string | null)[] = [null, null];
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true }))
      for (const { index, delta, finish_reason: finish } of choices) {
        texts[index] += delta.content ?? "";
        ends[index] = finish ?? ends[index];
      }
    expect(texts).toEqual(whole.choices.map(({ message }) => message.content));
    expect(ends).toEqual(["length", "length"]);
  });

  test("logprobs has a content for each token", async () => {
    const chat = await client.chat.completions.create({
      ...greedy,
      ...own,
      messages: question,
      logprobs: true,
      top_logprobs: 3,
    });
    const { content } = chat.choices[0].logprobs!;
    expect(content).toHaveLength(12);
    for (const { token, bytes, top_logprobs: top } of content!) {
      expect(top).toHaveLength(3);
      expect(bytes).toEqual([...Buffer.from(token)]);
    }
  });
});

describe("models and errors", () => {
  test("the server's model is listed and found", async () => {
    const models = await client.models.list();
    expect(models.data.map(({ id }) => id)).toEqual([model]);
    expect((await client.models.retrieve(model)).id).toBe(model);
    await expect(client.models.retrieve("other")).rejects.toThrow(OpenAI.NotFoundError);
  });

  test.each<[string, object, number, RegExp]>([
    ["another model", { model: "other" }, 404, /no model "other"/],
    ["an empty prompt", { prompt: [] }, 400, /prompt: /],
    ["a temperature below 0", { temperature: -1 }, 400, /^400 temperature/],
    ["no output tokens", { max_tokens: 0 }, 400, /max_tokens/],
    ["a prompt that is too long", { max_tokens: 10_000_000 }, 400, /exceed/],
    ["a prompt of an unknown type", { prompt: { text: "x" } }, 400, /prompt: expected text/],
    ["a token outside the vocabulary", { prompt: [1, 5000] }, 400, /token 5000/],
    ["a bias of a token outside its range", { logit_bias: { "1": 1000 } }, 400, /logit_bias/],
    ["too many outputs", { n: 1000 }, 400, /n:/],
    ["best_of below n", { n: 3, best_of: 2 }, 400, /best_of/],
    ["echo", { echo: true }, 400, /echo is not supported/],
  ])("%s is refused", async (_, wrong, status, message) => {
    const request = { ...greedy, prompt: "x", ...wrong } as OpenAI.CompletionCreateParamsNonStreaming;
    const error = await client.completions.create(request).then(
      () => undefined,
      (one) => one,
    );
    expect(error).toBeInstanceOf(OpenAI.APIError);
    expect(error.status).toBe(status);
    expect(error.message).toMatch(message);
    const stream = client.completions.create({ ...request, stream: true });
    await expect(stream).rejects.toThrow(message);
  });

  test("the code of a prompt that is too long is context_length_exceeded", async () => {
    const prompt = "x".repeat(200_000);
    const error = await client.completions.create({ ...greedy, prompt }).then(
      () => undefined,
      (one) => one,
    );
    expect(error).toMatchObject({ status: 400, code: "context_length_exceeded", type: "invalid_request_error" });
  });

  test("tools are refused, not ignored", async () => {
    const tools = [{ type: "function" as const, function: { name: "f", parameters: {} } }];
    await expect(client.chat.completions.create({ ...greedy, messages: question, tools })).rejects.toThrow(
      /tools are not supported/,
    );
  });
});

describe("abort", () => {
  test("an aborted stream releases its blocks, and the server goes on", async () => {
    const stream = await client.completions.create({
      ...greedy,
      ...own,
      max_tokens: 20_000,
      prompt: "long",
      stream: true,
    });
    let count = 0;
    for await (const _ of stream) if (++count === 3) break;
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(0);
    expect(await server.metric("vllm:kv_cache_usage_perc")).toBe(0);
    expect((await client.completions.create({ ...greedy, prompt: "next" })).choices).toHaveLength(1);
  });

  test("an aborted request that is not streamed releases its blocks, too", async () => {
    const controller = new AbortController();
    const request = client.completions.create(
      { ...greedy, ...own, max_tokens: 20_000, prompt: "long" },
      { signal: controller.signal },
    );
    const outcome = request.catch((error) => error);
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(1);
    controller.abort();
    expect(await outcome).toBeInstanceOf(OpenAI.APIUserAbortError);
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(0);
    expect(await server.metric("vllm:kv_cache_usage_perc")).toBe(0);
  });
});
