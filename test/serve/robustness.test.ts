import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { kvlab, newFolder } from "../cli/program.ts";
import { eventsOf, Server, startMs } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await Server.start(["--preset", "vllm", "--audit"]);
}, startMs);

const completions = "/v1/completions";
const request = { prompt: "Hello, how are you today?", max_tokens: 8, temperature: 0, ignore_eos: true };
/** Ends only if it is cancelled. */
const endless = { ...request, max_tokens: 30_000 };

/** Nothing runs or waits, and no block is referenced. */
async function expectNoLeak(of = server): Promise<void> {
  await expect.poll(() => of.metric("vllm:num_requests_running")).toBe(0);
  await expect.poll(() => of.metric("vllm:num_requests_waiting")).toBe(0);
  await expect.poll(() => of.metric("vllm:kv_cache_usage_perc")).toBe(0);
}

async function expectServes(of = server): Promise<void> {
  const { status, text } = await of.post(completions, request);
  expect(status).toBe(200);
  expect(JSON.parse(text).usage.completion_tokens).toBe(8);
}

function errorOf(text: string): { message: string; type: string; param: string | null; code: string | null } {
  const { error } = JSON.parse(text);
  expect(Object.keys(error).sort()).toEqual(["code", "message", "param", "type"]);
  return error;
}

describe("a second client, over raw HTTP", () => {
  test("events are lines of data that end with [DONE], and their text is that of the whole response", async () => {
    const whole = JSON.parse((await server.post(completions, request)).text);
    const { status, headers, text } = await server.post(completions, { ...request, stream: true });
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    const events = eventsOf(text) as { id: string; choices: { text: string; finish_reason: string | null }[] }[];
    expect(new Set(events.map(({ id }) => id)).size).toBe(1);
    expect(events.map(({ choices }) => choices[0].text).join("")).toBe(whole.choices[0].text);
    expect(events.at(-1)!.choices[0].finish_reason).toBe("length");
  });

  test("no event has a part of a character", async () => {
    // Bytes are tokens: each character of the output is two tokens, the bytes of é.
    const prompt = [...Buffer.from("é")];
    const bias = { "195": 100, "169": 100 };
    const { text } = await server.post(completions, {
      ...{ prompt, max_tokens: 40, temperature: 0, ignore_eos: true, stream: true },
      ...{ logit_bias: bias, frequency_penalty: 1 },
    });
    const events = eventsOf(text) as { choices: { text: string }[] }[];
    const texts = events.map(({ choices }) => choices[0].text).filter((one) => one !== "");
    expect(texts.join("")).toMatch(/é{5}/);
    expect(texts.filter((one) => one.includes("é")).every((one) => /^(é|\uFFFD)+$/.test(one))).toBe(true);
  });

  test("an unknown path, a wrong method and a wrong content type have their status", async () => {
    expect((await server.send("/v2/x")).status).toBe(404);
    expect((await server.post("/v1/embeddings", {})).status).toBe(404);
    expect((await server.send(completions)).status).toBe(405);
    expect((await server.send(completions, "{}", { "content-type": "text/plain" })).status).toBe(415);
    expect((await server.send("/health")).status).toBe(200);
  });

  test("a chat request to a model without a chat template is the client's error", async () => {
    const { status, text } = await server.post("/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }] });
    expect(status).toBe(400);
    expect(errorOf(text).message).toMatch(/no chat template/);
  });
});

describe("invalid bodies", () => {
  test.each<[string, string | Uint8Array, number, RegExp]>([
    ["no JSON", '{"prompt": ', 400, /is not JSON/],
    ["an empty body", "", 400, /is not JSON/],
    ["JSON that is no object", "[1, 2]", 400, /not a JSON object/],
    ["null", "null", 400, /not a JSON object/],
    ["deeply nested JSON", "[".repeat(1_000_000), 400, /is not JSON/],
    ["invalid UTF-8", Uint8Array.of(0x7b, 0x22, 0xc3, 0x28, 0x22, 0x7d), 400, /not valid UTF-8/],
    ["no prompt", "{}", 400, /prompt/],
    ["a number that is no number", '{"prompt": "x", "temperature": "hot"}', 400, /temperature/],
    ["a prompt that is too long", JSON.stringify({ prompt: "x".repeat(150_000) }), 400, /exceed/],
    ["9 MB", JSON.stringify({ prompt: "x".repeat(9_000_000) }), 413, /too large/],
    ["100 MB", Buffer.alloc(100 * 2 ** 20, "x"), 413, /too large/],
  ])("%s", async (_, body, status, message) => {
    const reply = await server.send(completions, body);
    expect(reply.status).toBe(status);
    expect(errorOf(reply.text).message).toMatch(message);
    await expectNoLeak();
    await expectServes();
  });

  test("100 MB without a length are refused when the limit is reached", async () => {
    const socket = connect(server.port, "127.0.0.1").setMaxListeners(0);
    socket.on("error", () => {});
    socket.write(
      `POST ${completions} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    let reply = "";
    socket.on("data", (part) => {
      reply += part;
    });
    const chunk = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(2 ** 20, "x"), Buffer.from("\r\n")]);
    for (let i = 0; i < 100 && reply === ""; i++) {
      if (!socket.write(chunk))
        await Promise.race([once(socket, "drain"), once(socket, "data"), once(socket, "close")]);
      await sleep(0);
    }
    await expect.poll(() => reply).toMatch(/^HTTP\/1.1 413 /);
    socket.destroy();
    await expectServes();
  });
});

describe("connections", () => {
  test("500 concurrent connections are all served", async () => {
    const replies = await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        server.post(completions, { ...request, prompt: `request ${i % 50}`, stream: i % 2 === 0 }),
      ),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(500);
    replies.forEach(({ text }, i) => {
      if (i % 2 === 0) expect(eventsOf(text).length).toBeGreaterThan(1);
      else expect(JSON.parse(text).usage.completion_tokens).toBe(8);
    });
    await expectNoLeak();
  });

  test("clients that disconnect at any time leave no block referenced", async () => {
    const sockets = Array.from({ length: 100 }, (_, i) =>
      server.connection({ ...endless, prompt: `client ${i}`, stream: i % 2 === 0 }),
    );
    for (const [i, socket] of sockets.entries()) {
      socket.on("error", () => {});
      // At once, before the first token, while it runs, or while it waits.
      void sleep((i % 10) * 20).then(() => socket.destroy());
    }
    await Promise.all(sockets.map((socket) => once(socket, "close")));
    await expectNoLeak();
    await expectServes();
  });

  test("a client that does not read neither delays others nor keeps blocks", async () => {
    const slow = Array.from({ length: 8 }, (_, i) =>
      server.connection({ ...request, prompt: `slow ${i}`, max_tokens: 1000, stream: true, logprobs: 20 }).pause(),
    );
    await expectServes();
    await expectNoLeak();
    // The whole output arrives when they read.
    for (const socket of slow) {
      let text = "";
      socket.setEncoding("utf8").on("data", (part) => {
        text += part;
      });
      socket.resume();
      await expect.poll(() => text.includes("data: [DONE]")).toBe(true);
      socket.destroy();
    }
  });

  test("requests from pages of other sites are refused", async () => {
    expect((await server.post(completions, request, { origin: "https://example.com" })).status).toBe(403);
    expect((await server.post(completions, request, { host: "example.com" })).status).toBe(403);
  });
});

describe("limits", () => {
  test("more than --max-requests requests in progress get status 429", async () => {
    const small = await Server.start(["--max-requests", "3"]);
    const sockets = Array.from({ length: 3 }, () => small.connection({ ...endless, stream: true }));
    await expect.poll(() => small.metric("vllm:num_requests_running")).toBe(3);
    const { status, headers, text } = await small.post(completions, request);
    expect(status).toBe(429);
    expect(headers["retry-after"]).toBe("1");
    expect(errorOf(text)).toMatchObject({ type: "rate_limit_error", code: "rate_limit_exceeded" });
    for (const socket of sockets) socket.destroy();
    await expectNoLeak(small);
    await expectServes(small);
  });

  test("other machines need a key, and requests need it, too", async () => {
    const refused = await kvlab(newFolder(), ["serve", "--host", "0.0.0.0", "--port", "0"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toBe("kvlab: --host 0.0.0.0 needs --api-key, because other machines can reach the server\n");
    const open = await Server.start(["--host", "0.0.0.0"], { KVLAB_API_KEY: "secret" });
    for (const headers of [{}, { authorization: "Bearer wrong" }]) {
      const { status, text } = await open.post(completions, request, headers);
      expect(status).toBe(401);
      expect(errorOf(text).code).toBe("invalid_api_key");
      expect((await open.send("/metrics", undefined, headers)).status).toBe(401);
    }
    expect((await open.send("/health")).status).toBe(200);
    expect((await open.post(completions, request, { authorization: "Bearer secret" })).status).toBe(200);
    await expect(open.client("secret").models.list()).resolves.toBeDefined();
  });
});

describe("the end of the server", () => {
  test("a signal lets requests in progress end, refuses new ones, and the exit code is 0", async () => {
    const ending = await Server.start();
    const running = ending.post(completions, { ...request, max_tokens: 1500 });
    await expect.poll(() => ending.metric("vllm:num_requests_running")).toBe(1);
    ending.signal("SIGINT");
    await expect.poll(async () => (await ending.send("/health")).status).toBe(503);
    const refused = await ending.post(completions, request);
    expect([refused.status, errorOf(refused.text).type]).toEqual([503, "service_unavailable_error"]);
    const { status, text } = await running;
    expect([status, JSON.parse(text).usage.completion_tokens]).toEqual([200, 1500]);
    const { code, stderr } = await ending.ended;
    expect([code, stderr]).toEqual([0, ""]);
  });

  test("after --grace, requests in progress are cancelled", async () => {
    const ending = await Server.start(["--grace", "0"]);
    const running = ending.post(completions, endless);
    await expect.poll(() => ending.metric("vllm:num_requests_running")).toBe(1);
    ending.signal("SIGTERM");
    expect((await running).status).toBe(503);
    expect((await ending.ended).code).toBe(0);
  });

  test("a second signal ends it at once", async () => {
    const ending = await Server.start();
    const running = ending.post(completions, endless).catch((error: Error) => error);
    await expect.poll(() => ending.metric("vllm:num_requests_running")).toBe(1);
    ending.signal("SIGINT");
    await expect.poll(async () => (await ending.send("/health")).status).toBe(503);
    ending.signal("SIGINT");
    expect((await ending.ended).code).not.toBe(0);
    expect(await running).toBeInstanceOf(Error);
  });
});

describe("a user's policy", () => {
  const file = (name: string) => fileURLToPath(new URL(`../cli/broken/${name}.ts`, import.meta.url));

  test("a signal lets requests in progress end", async () => {
    const ending = await Server.start([
      "--eviction",
      fileURLToPath(new URL("../../examples/used-again.ts", import.meta.url)),
    ]);
    const running = ending.post(completions, { ...request, max_tokens: 1500 });
    await expect.poll(() => ending.metric("vllm:num_requests_running")).toBe(1);
    ending.signal("SIGINT");
    expect((await running).status).toBe(200);
    expect((await ending.ended).code).toBe(0);
  });

  test("its error ends the server with the name of its file, and connections are closed", async () => {
    const failing = await Server.start(["--eviction", file("throws")]);
    const prompt = "a prompt of more than two blocks of sixteen tokens";
    expect((await failing.post(completions, { ...request, prompt })).status).toBe(200);
    await expect(failing.post(completions, { ...request, prompt })).rejects.toThrow();
    const { code, stderr } = await failing.ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(/throws\.ts: .*no place for a hit/);
  });
});

describe("options", () => {
  test.each<[string, readonly string[], RegExp]>([
    ["a policy that reads the future", ["--eviction", "belady"], /reads the future, which a server does not know/],
    ["a share of distinct blocks", ["--blocks", "10%"], /--blocks of a server is a number of blocks/],
    ["two sizes", ["--blocks", "10", "--capacity", "1MiB"], /exclude each other/],
    ["an unknown model", ["--model", "nowhere"], /no model folder nowhere/],
    ["an unknown preset", ["--preset", "vlm"], /did you mean "vllm"/],
    ["a port that is too large", ["--port", "65536"], /--port is "65536"/],
    ["an empty key", ["--api-key", ""], /--api-key is empty/],
    ["an unknown number of workers", ["--workers", "2"], /--workers is "2", expected three or one/],
  ])("%s is refused in one line", async (_, args, message) => {
    const { code, stdout, stderr } = await kvlab(newFolder(), ["serve", ...args]);
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toMatch(message);
    expect(stderr.trim().split("\n")).toHaveLength(1);
  });

  test("a port in use is refused", async () => {
    const { code, stderr } = await kvlab(newFolder(), ["serve", "--port", String(server.port)]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/is in use; choose another one/);
  });

  test("one worker has the same output as three", async () => {
    const one = await Server.start(["--workers", "one", "--preset", "vllm"]);
    const texts = async (of: Server) => JSON.parse((await of.post(completions, request)).text).choices[0].text;
    expect(await texts(one)).toBe(await texts(server));
    await expectNoLeak(one);
  });
});
