import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { OnlineEngine } from "../../engine/online-engine.ts";
import type { OutputEnd } from "./generator.ts";

/** Bucket limits in seconds. */
const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const tokenBuckets = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];

/**
 * Metrics in the format of Prometheus, with vLLM's names where they mean the same. Gauges and counters of the cache are read when
 * they are collected.
 */
export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #success;
  readonly #rejected;
  readonly #promptTokens;
  readonly #generatedTokens;
  readonly #ttft;
  readonly #tpot;
  readonly #latency;
  readonly #queue;
  readonly #prefill;
  readonly #decode;
  readonly #promptLength;
  readonly #outputLength;

  /** `httpRequests`: HTTP requests in progress. */
  constructor(model: string, engine: OnlineEngine, httpRequests: () => number) {
    this.#registry.setDefaultLabels({ model_name: model, engine: "0" });
    const registers = [this.#registry];
    const { cache, replica } = engine.replica;
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    const total = (name: string, help: string, read: () => number) =>
      new Counter({
        ...{ name, help, registers },
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    gauge("vllm:num_requests_running", "Requests that are computed.", () => replica.runningCount);
    gauge("vllm:num_requests_waiting", "Requests that wait for admission.", () => replica.waitingCount);
    gauge(
      "vllm:kv_cache_usage_perc",
      "Share of the cache's blocks that are referenced by requests, from 0 to 1.",
      () => cache.referencedBlocks / cache.pool.blockCount,
    );
    const { counters } = cache;
    total(
      "vllm:prefix_cache_queries_total",
      "Prompt tokens that were looked up in the cache.",
      () => counters.lookupTokens,
    );
    total("vllm:prefix_cache_hits_total", "Prompt tokens that were found in the cache.", () => counters.hitTokens);
    total("vllm:num_preemptions_total", "Preemptions of running requests.", () => counters.preemptions);
    total("kvlab:evicted_blocks_total", "Evicted blocks.", () => counters.evictedBlocks);
    gauge("kvlab:http_requests", "HTTP requests in progress.", httpRequests);
    gauge("kvlab:cached_blocks", "Blocks that are stored in the prefix index.", () => cache.index.blockCount);
    gauge(
      "kvlab:distinct_blocks",
      "Distinct blocks that the server has computed since its start.",
      () => engine.distinctBlocks,
    );
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.", () => process.memoryUsage.rss());
    total("process_cpu_seconds_total", "User and system CPU time of all threads in seconds.", () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    const counter = (name: string, help: string, labelNames: string[] = []) =>
      new Counter({ name, help, labelNames, registers });
    const histogram = (name: string, help: string, buckets = seconds) =>
      new Histogram({ name, help, buckets, registers });
    this.#success = counter("vllm:request_success_total", "Outputs by the reason of their end.", ["finished_reason"]);
    this.#rejected = counter("kvlab:rejected_requests_total", "HTTP requests that were refused, by status.", [
      "status",
    ]);
    this.#promptTokens = counter("vllm:prompt_tokens_total", "Prompt tokens.");
    this.#generatedTokens = counter("vllm:generation_tokens_total", "Generated tokens.");
    this.#ttft = histogram("vllm:time_to_first_token_seconds", "Time to the first token in seconds.");
    this.#tpot = histogram(
      "vllm:request_time_per_output_token_seconds",
      "Time per output token after the first, by request.",
    );
    this.#latency = histogram("vllm:e2e_request_latency_seconds", "Time from arrival to end in seconds.");
    this.#queue = histogram("vllm:request_queue_time_seconds", "Time from arrival to admission in seconds.");
    this.#prefill = histogram(
      "vllm:request_prefill_time_seconds",
      "Time from admission to the first token in seconds.",
    );
    this.#decode = histogram("vllm:request_decode_time_seconds", "Time from the first to the last token in seconds.");
    this.#promptLength = histogram("vllm:request_prompt_tokens", "Prompt tokens by request.", tokenBuckets);
    this.#outputLength = histogram("vllm:request_generation_tokens", "Generated tokens by request.", tokenBuckets);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** An HTTP request was answered with an error. */
  rejected(status: number): void {
    this.#rejected.inc({ status: String(status) });
  }

  ended({ text, request }: OutputEnd): void {
    const { arrivalNs, admittedNs, firstTokenNs, finishedNs, inputTokens, outputTokens } = request;
    const finish = text === undefined ? "abort" : text.finish === "length" ? "length" : "stop";
    this.#success.inc({ finished_reason: finish });
    this.#generatedTokens.inc(outputTokens);
    const observe = (histogram: Histogram, from: number | undefined, to: number | undefined) => {
      if (from !== undefined && to !== undefined) histogram.observe((to - from) / 1e9);
    };
    if (admittedNs !== undefined) this.#promptTokens.inc(inputTokens);
    observe(this.#queue, arrivalNs, admittedNs);
    observe(this.#ttft, arrivalNs, firstTokenNs);
    observe(this.#prefill, admittedNs, firstTokenNs);
    if (text === undefined) return;
    observe(this.#decode, firstTokenNs, finishedNs);
    observe(this.#latency, arrivalNs, finishedNs);
    if (outputTokens > 1 && firstTokenNs !== undefined)
      this.#tpot.observe((finishedNs - firstTokenNs) / 1e9 / (outputTokens - 1));
    this.#promptLength.observe(inputTokens);
    this.#outputLength.observe(outputTokens);
  }
}
