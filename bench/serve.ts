import { type ChildProcess, spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { stopwatch } from "../engine/clock.ts";
import { programOfKvlab } from "../lab/package.ts";
import { type WorkerMode, workerModes } from "../lab/serve/worker-modes.ts";
import type { Measurement } from "./measure.ts";

/** The model, and the pairs of measurements of both modes. */
const [model = "random:tiny", pairs = "9"] = process.argv.slice(2);
const streamCounts = [1, 8, 32];
const promptTokens = 400;
const outputTokens = 64;
const requestsPerStream = 6;

interface Running {
  readonly child: ChildProcess;
  readonly port: number;
}

async function startServer(workers: WorkerMode): Promise<Running> {
  const [node, ...before] = programOfKvlab();
  const args = ["serve", "--model", model, "--port", "0", "--preset", "vllm", "--blocks", "8000", "--workers", workers];
  const child = spawn(node, [...before, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout!.setEncoding("utf8").on("data", (text: string) => resolve(Number(/:(\d+)\/v1/.exec(text)?.[1])));
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { child, port };
}

/** Streams one completion; returns the time to its first event, in ms. */
function stream(port: number, agent: Agent, prompt: string): Promise<number> {
  const body = JSON.stringify({ prompt, max_tokens: outputTokens, temperature: 0, ignore_eos: true, stream: true });
  return new Promise((resolve, reject) => {
    const elapsedMs = stopwatch();
    let ttftMs: number | undefined;
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request({ port, path: "/v1/completions", method: "POST", agent, headers }, (response) => {
      response.on("data", () => {
        ttftMs ??= elapsedMs();
      });
      response.on("end", () => resolve(ttftMs!));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

let prompts = 0;
/** Text that no earlier request has. */
const newPrompt = () => `${prompts++} `.padEnd(promptTokens, `request ${prompts} `);

interface Point {
  readonly tokensPerS: number;
  readonly ttftMs: number;
  /** CPU time of the server for each token. */
  readonly cpuMs: number;
}

async function cpuMs(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^process_cpu_seconds_total\{.*\} (.+)$/m.exec(text)![1]) * 1000;
}

async function measure({ port }: Running, streams: number): Promise<Point> {
  const agent = new Agent({ keepAlive: true });
  const before = await cpuMs(port);
  const elapsedMs = stopwatch();
  const ttfts: number[] = [];
  const one = async () => {
    for (let i = 0; i < requestsPerStream; i++) ttfts.push(await stream(port, agent, newPrompt()));
  };
  await Promise.all(Array.from({ length: streams }, one));
  const tokens = streams * requestsPerStream * outputTokens;
  const tokensPerS = tokens / (elapsedMs() / 1000);
  agent.destroy();
  return { tokensPerS, ttftMs: median(ttfts), cpuMs: ((await cpuMs(port)) - before) / tokens };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const servers = new Map<WorkerMode, Running>();
for (const mode of workerModes) servers.set(mode, await startServer(mode));
const results: Measurement[] = [];
try {
  // Compiles the code of both.
  for (const running of servers.values()) for (let i = 0; i < 3; i++) await measure(running, 8);
  for (const streams of streamCounts) {
    const points: Record<WorkerMode, Point[]> = { three: [], one: [] };
    for (let pair = 0; pair < Number(pairs); pair++)
      for (const mode of pair % 2 === 0 ? workerModes : workerModes.toReversed())
        points[mode].push(await measure(servers.get(mode)!, streams));
    const of = (mode: WorkerMode, name: keyof Point) => points[mode].map((point) => point[name]);
    const ratio = (name: keyof Point) => median(of("three", name).map((value, i) => value / of("one", name)[i]));
    const label = `${streams} ${streams === 1 ? "stream" : "streams"}`;
    for (const mode of workerModes)
      results.push(
        { name: `${label}, ${mode}: throughput`, value: median(of(mode, "tokensPerS")), unit: "tokens/s" },
        { name: `${label}, ${mode}: TTFT, median`, value: median(of(mode, "ttftMs")), unit: "ms" },
      );
    results.push(
      { name: `${label}, three ÷ one: throughput`, value: ratio("tokensPerS"), unit: "×" },
      { name: `${label}, three ÷ one: TTFT`, value: ratio("ttftMs"), unit: "×" },
      { name: `${label}, three ÷ one: CPU time`, value: ratio("cpuMs"), unit: "×" },
    );
  }
  console.log(JSON.stringify(results));
} finally {
  for (const { child } of servers.values()) child.kill("SIGKILL");
}
