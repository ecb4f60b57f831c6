import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openTrace } from "../../lab/input.ts";
import { replay } from "../../lab/run/run-trace.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { LiveRuns } from "../../viz/server/live.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { chatModel, Server, startMs } from "./server.ts";

/** Blocks of 1,920 tokens. */
const blocksOf = (preset: string) => Math.ceil(1920 / presetRegistry.get(preset).blockTokens);

describe("--record", () => {
  test.each(["vllm", "sglang", "lmdeploy", "tgi"])(
    "%s: a replay of the recorded requests has the cached tokens of the responses",
    async (preset) => {
      const server = await Server.start([
        "--model",
        chatModel(),
        "--preset",
        preset,
        "--record",
        "served.jsonl",
        "--blocks",
        String(blocksOf(preset)),
      ]);
      const client = server.client();
      const [{ id: model }] = (await client.models.list()).data;
      const cached: number[] = [];
      // Chats that go on in turns, in a cache that is too small for all of them.
      const chats = Array.from({ length: 4 }, (_, i) => [
        { role: "user" as const, content: `Conversation ${i} ${"with a long beginning ".repeat(6)}` },
      ]) as { role: "user" | "assistant"; content: string }[][];
      for (let turn = 0; turn < 12; turn++) {
        const messages = chats[(turn * 7) % 4];
        const { choices, usage } = await client.chat.completions.create({
          ...{ model, messages, max_tokens: 20, temperature: 1, seed: turn, stop: turn % 3 === 0 ? ["e"] : null },
        });
        cached.push(usage!.prompt_tokens_details!.cached_tokens!);
        messages.push({ role: "assistant", content: choices[0].message.content! }, { role: "user", content: "Go on." });
      }
      server.signal("SIGINT");
      expect((await server.ended).code).toBe(0);
      const trace = await openTrace(join(server.folder, "served.jsonl"));
      const { result } = await replay(trace, { preset, blocks: { blocks: blocksOf(preset) } });
      expect([...result.requests.hitTokens]).toEqual(cached);
      expect(Math.max(...cached)).toBeGreaterThan(0);
    },
    startMs,
  );

  test("requests are recorded in the order of their arrival, without those that have no output", async () => {
    const server = await Server.start(["--record", "served.jsonl"]);
    const long = server.post("/v1/completions", { prompt: "first", max_tokens: 600, ignore_eos: true });
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(1);
    await server.post("/v1/completions", { prompt: "second!", max_tokens: 2, ignore_eos: true, cache_salt: "a" });
    expect(readFileSync(join(server.folder, "served.jsonl"), "utf8")).toBe("");
    await long;
    server.signal("SIGINT");
    await server.ended;
    const lines = readFileSync(join(server.folder, "served.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ input_toks: input, output_toks: output, namespace }) => [input, output, namespace])).toEqual([
      [5, 600, 0],
      [7, 2, 1],
    ]);
    expect(lines[0].arrival_time_ns).toBeLessThan(lines[1].arrival_time_ns);
  });

  test("an existing file is refused and unchanged", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.txt"), "mine");
    const { code, stderr } = await kvlab(folder, ["serve", "--port", "0", "--blocks", "100", "--record", "mine.txt"]);
    expect([code, stderr]).toEqual([2, "kvlab: --record mine.txt: exists already\n"]);
    expect(readFileSync(join(folder, "mine.txt"), "utf8")).toBe("mine");
  });
});

describe("--live", () => {
  test("a dashboard of the folder shows the server while it runs", async () => {
    const server = await Server.start(["--live", "--preset", "vllm"]);
    for (let i = 0; i < 3; i++)
      await server.post("/v1/completions", { prompt: "The same prompt, again", max_tokens: 3 });
    const runs = new LiveRuns(join(server.folder, "runs"));
    const row = async () => (await runs.refresh())[0];
    await expect
      .poll(async () => (await row()) as object)
      .toMatchObject({
        ...{ state: "running", trace: "requests to random:tiny", requests: null, preset: "vllm", target: "cpu" },
        now: { requestsDone: 3, hitTokens: 32, running: 0, waiting: 0 },
      });
    const { id } = (await row()) as { id: string };
    await expect.poll(async () => (await runs.series(id)).columns.size).toBeGreaterThan(0);
    server.signal("SIGINT");
    await server.ended;
    expect(existsSync(join(server.folder, "runs"))).toBe(false);
  });
});

describe("a long run", () => {
  test("thousands of requests, some of them cancelled, leave memory flat and no block referenced", async () => {
    const server = await Server.start(["--preset", "vllm"]);
    const wave = async (count: number) => {
      const replies = Array.from({ length: count }, async (_, i) => {
        const body = {
          prompt: `A shared beginning of all prompts: ${i % 40}`,
          max_tokens: 6,
          ignore_eos: true,
          stream: i % 3 === 0,
        };
        if (i % 10 > 0) return (await server.post("/v1/completions", body)).status;
        const socket = server.connection({ ...body, max_tokens: 1000, stream: true });
        await new Promise((resolve) => socket.once("data", resolve));
        socket.destroy();
        return 200;
      });
      expect(new Set(await Promise.all(replies))).toEqual(new Set([200]));
    };
    for (let i = 0; i < 4; i++) await wave(250);
    const before = await server.metric("process_resident_memory_bytes");
    for (let i = 0; i < 8; i++) await wave(250);
    const grown = (await server.metric("process_resident_memory_bytes")) - before;
    // 2,000 requests; one KiB that is kept for each token of them would be 70 MiB.
    expect(grown).toBeLessThan(48 * 2 ** 20);
    await expect.poll(() => server.metric("vllm:num_requests_running")).toBe(0);
    expect(await server.metric("vllm:kv_cache_usage_perc")).toBe(0);
    expect(await server.metric("kvlab:http_requests")).toBe(0);
  });
});
