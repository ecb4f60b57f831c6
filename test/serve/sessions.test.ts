import { beforeAll, describe, expect, test } from "vitest";
import { chatModel, Server, startMs } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await Server.start(["--model", chatModel(), "--preset", "vllm", "--sessions", "2"]);
}, startMs);

const chat = "/v1/chat/completions";
const options = { max_tokens: 12, temperature: 0, ignore_eos: true };
const user = (content: string) => ({ role: "user", content });

async function answer(messages: readonly object[], more: object = {}) {
  const { status, text } = await server.post(chat, { ...options, messages, ...more });
  expect(status).toBe(200);
  const { choices, usage } = JSON.parse(text);
  return { content: choices[0].message.content as string, usage };
}

const turn = (id: string, content: string) => answer([user(content)], { session_id: id });

describe("stateful sessions", () => {
  test("a session has the answers of the whole conversation, and finds the earlier turns in the cache", async () => {
    const first = await turn("a", "What is a cache?");
    const second = await turn("a", "And a page?");
    const whole = [user("What is a cache?"), { role: "assistant", content: first.content }, user("And a page?")];
    const stateless = await answer(whole);
    expect(second.content).toBe(stateless.content);
    expect(second.usage.prompt_tokens).toBe(stateless.usage.prompt_tokens);
    expect(second.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(16);
    expect((await turn("other", "And a page?")).usage.prompt_tokens).toBeLessThan(second.usage.prompt_tokens);
  });

  test("a deleted session and one that was not used for long begin anew", async () => {
    const { usage } = await turn("b", "Hello");
    const again = async (id: string) => (await turn(id, "Hello")).usage.prompt_tokens;
    expect(await again("b")).toBeGreaterThan(usage.prompt_tokens);
    expect((await fetch(`${server.url}/v1/sessions/b`, { method: "DELETE" })).status).toBe(204);
    expect((await fetch(`${server.url}/v1/sessions/b`, { method: "DELETE" })).status).toBe(404);
    expect(await again("b")).toBe(usage.prompt_tokens);
    for (const id of ["c", "d"]) await turn(id, "Hi");
    expect(await again("b")).toBe(usage.prompt_tokens);
  });

  test("a session has one turn at a time, and a turn without an answer leaves it as it was", async () => {
    const { usage } = await turn("e", "Hello");
    const controller = new AbortController();
    const endless = { ...options, max_tokens: 20_000, messages: [user("Go on")], session_id: "e" };
    const headers = { "content-type": "application/json" };
    const aborted = fetch(`${server.url}${chat}`, {
      ...{ method: "POST", headers, body: JSON.stringify(endless), signal: controller.signal },
    }).catch((error: Error) => error.name);
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(1);
    expect((await server.post(chat, endless)).status).toBe(409);
    controller.abort();
    expect(await aborted).toBe("AbortError");
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(0);
    await expect.poll(async () => (await server.post(chat, { ...endless, max_tokens: 1 })).status).toBe(200);
    const { prompt_tokens: expected } = (await turn("f", "Hello")).usage;
    expect(expected).toBe(usage.prompt_tokens);
  });

  test.each([
    ["several answers", chat, { messages: [user("x")], n: 2 }, /n is above 1/],
    ["a completion", "/v1/completions", { prompt: "x" }, /only chats/],
  ])("%s is refused", async (_, path, body, message) => {
    const { status, text } = await server.post(path, { ...body, session_id: "g" });
    expect([status, JSON.parse(text).error.param]).toEqual([400, "session_id"]);
    expect(JSON.parse(text).error.message).toMatch(message);
  });
});
