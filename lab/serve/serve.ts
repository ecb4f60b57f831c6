import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InputError } from "../../core/errors.ts";
import { type CacheConfig, rulesFor } from "../../core/replica/compose.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import type { EngineBackend } from "../../engine/backend.ts";
import { tokensThatFit } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { WallClock } from "../../engine/clock.ts";
import { type LoadedModel, loadModel } from "../../engine/model/load.ts";
import { OnlineEngine } from "../../engine/online-engine.ts";
import { throwIfInterrupted } from "../control.ts";
import type { Capacity } from "../run/capacity.ts";
import {
  blockTokensFor,
  checkMemory,
  deviceOf,
  type PartChoice,
  type Parts,
  partsNamed,
  schedulerOptionsOn,
} from "../run/configuration.ts";
import { LiveRun } from "../run/live.ts";
import { defaultModel, engineCapacity, engineFrom, poolBytesPerToken, type RealEngine } from "../run/real-engine.ts";
import { openPool } from "../run/run-engine.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import { withFile } from "../run/slices.ts";
import type { Target } from "../run/target.ts";
import type { LiveOptions } from "../run/trace-run.ts";
import { serverApp, Traffic } from "./app.ts";
import { ModelServer } from "./model-server.ts";
import { Recorder } from "./recorder.ts";
import { TextClient } from "./text-client.ts";
import type { WorkerMode } from "./worker-modes.ts";

export interface ServeOptions
  extends PartChoice,
    Pick<SimulationOptions, "model" | "bits" | "threads" | "capacity" | "gpuMemory" | "schedulerOption" | "swapSpace"> {
  readonly target?: Target;
  readonly rules?: Parts["rules"];
  readonly blocks?: Capacity;
  readonly blockSize?: number;
  readonly seed?: number;
  readonly audit?: boolean;
  /** The name by which clients request the model; by default `model`. */
  readonly servedModelName?: string;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly apiKeys: readonly string[];
  readonly maxRequests: number;
  /** Most stateful sessions; 0: none are supported. */
  readonly sessions: number;
  readonly workers: WorkerMode;
  /** A file to which served requests are written as a trace. */
  readonly record?: string;
  /** Shows the server in dashboards of a folder of runs. */
  readonly live?: LiveOptions;
  /** Time for requests in progress to end after a signal, in ms. */
  readonly graceMs: number;
  /** Reports an error that is not a client's. */
  report(message: string): void;
}

export interface RunningServer {
  /** Base URL of the API: `http://127.0.0.1:8000/v1`. */
  readonly url: string;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly maxTokens: number;
  /** Rejects if the engine or a worker fails; resolves after `close`. */
  readonly ended: Promise<void>;
  /** Refuses new requests, waits for those in progress, at most for the grace period, and ends the server. */
  close(): Promise<void>;
}

const loopback = ["127.0.0.1", "localhost", "::1"];
/** Bytes of the pool, if no option sets its size and that many fit. */
const defaultPoolBytes = 2 ** 30;
/** Time in which a client must have sent a whole request. */
const requestTimeoutMs = 60_000;
/** Connections beside those of requests in progress: for 429 responses, health checks and idle connections. */
const spareConnections = 1024;

/**
 * Starts an OpenAI-compatible server of one model.
 *
 * @throws InputError if an option, the model or the address is invalid; UnavailableError, ExecutorError, Interrupted
 */
export async function startServer(options: ServeOptions, signal?: AbortSignal): Promise<RunningServer> {
  checkAddress(options);
  const parts = await partsNamed(options, options.rules ?? {}, options.target ?? defaultBackend.name);
  throwIfInterrupted(signal);
  const loaded = loadModel(options.model ?? defaultModel);
  const started: (() => void | Promise<void>)[] = [() => loaded.close()];
  const closeAll = async () => {
    for (const close of started.reverse().splice(0)) await close();
  };
  try {
    return await start(options, parts, loaded, started, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** @throws InputError if other machines could use the server without a key */
function checkAddress({ host, apiKeys }: ServeOptions): void {
  if (apiKeys.length === 0 && !loopback.includes(host))
    throw new InputError(`--host ${host} needs --api-key, because other machines can reach the server`);
}

async function start(
  options: ServeOptions,
  parts: Parts,
  loaded: LoadedModel,
  started: (() => void | Promise<void>)[],
  closeAll: () => Promise<void>,
): Promise<RunningServer> {
  const { model = defaultModel, seed = 1, workers, host, port, apiKeys, maxRequests, report } = options;
  const real = engineFrom(options, new TraceBuilder(1).take(), loaded);
  const { blocks, blockTokens, config } = engineConfig(options, parts, real);
  const executor = await openPool(real, blocks, blockTokens);
  started.push(() => executor.close());
  const engine = new OnlineEngine({ ...config, executor });
  const client = async () => {
    const text =
      workers === "one" ? TextClient.inThisThread(await loaded.tokenizer()) : await TextClient.inThread(model);
    started.push(() => text.end());
    return text;
  };
  const recorder = options.record === undefined ? undefined : await Recorder.open(options.record, report);
  if (recorder) started.push(() => recorder.close());
  const [tokenizer, detokenizer] = [await client(), await client()];
  const traffic = new Traffic();
  const maxTokens = Math.min(loaded.config.maxPositions, blocks * blockTokens);
  const modelServer = new ModelServer({
    ...{ model: options.servedModelName ?? model, loaded, engine, tokenizer, detokenizer, maxTokens, seed },
    ...{ httpRequests: () => traffic.active, recorder },
  });
  const http = createServer(
    { requestTimeout: requestTimeoutMs },
    serverApp(modelServer, traffic, {
      apiKeys,
      maxRequests,
      sessions: options.sessions,
      report: ({ message }) => report(message),
    }),
  );
  http.maxConnections = maxRequests + spareConnections;
  await listening(http, host, port);
  const closeHttp = async () => {
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  started.push(closeHttp);
  if (options.live) {
    const live = await liveServer(options.live, parts, config, options);
    live.watch(engine);
    started.push(() => live.close());
  }
  const running = engine.run().catch((error: unknown) => {
    throw withFile(error, parts);
  });
  const ended = Promise.race([running, tokenizer.died, detokenizer.died]).finally(closeAll);
  // A rejection is handled also before `ended` is awaited.
  ended.catch(() => {});
  const { port: actual } = http.address() as AddressInfo;
  return {
    ...{ blocks, blockTokens, maxTokens, ended },
    url: `http://${host.includes(":") ? `[${host}]` : host}:${actual}/v1`,
    async close() {
      traffic.isDraining = true;
      await atMost(traffic.idle(), options.graceMs);
      engine.cancelAll();
      await atMost(traffic.idle(), longestResponseMs);
      await closeHttp();
      engine.close();
      await ended;
    },
  };
}

/** Time for the responses to cancelled requests. */
const longestResponseMs = 5000;

/** Resolves with the promise, or after a time. */
async function atMost(promise: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, timeout]);
  clearTimeout(timer);
}

/** @throws InputError if the pool's size or an option of the scheduler is invalid */
function engineConfig(options: ServeOptions, parts: Parts, real: RealEngine) {
  const { backend, loaded, bits, swapSpace } = real;
  const blockTokens = blockTokensFor({ unitTokens: 1 }, options.blockSize, parts.preset);
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both set the size of the cache");
  const blockBytes = poolBytesPerToken(real) * blockTokens;
  const capacity = engineCapacity(options, real, blockTokens) ?? {
    blocks: Math.max(1, Math.min(Math.floor(defaultPoolBytes / blockBytes), fitting(backend, real, blockTokens))),
  };
  if (capacity === "unlimited" || "share" in capacity)
    throw new InputError("--blocks of a server is a number of blocks: it has no trace, and no unlimited cache");
  const { blocks } = capacity;
  checkMemory(blocks);
  const config = {
    ...parts,
    ...{ blocks, blockTokens, seed: options.seed ?? 1, audit: options.audit ?? false },
    schedulerOptions: { ...schedulerOptionsOn(parts, deviceOf(undefined, real)), ...options.schedulerOption },
    hostBlocks: Math.floor(swapSpace / blockBytes),
    vocabulary: loaded.config.vocabulary,
    maxPositions: loaded.config.maxPositions,
    clock: new WallClock(),
  };
  return { blocks, blockTokens, config, bits };
}

/** The server among the runs that dashboards of the folder show. */
function liveServer(
  { runs, warn }: LiveOptions,
  parts: Parts,
  { blocks, blockTokens }: Pick<CacheConfig, "blocks" | "blockTokens">,
  { target, model = defaultModel }: ServeOptions,
): Promise<LiveRun> {
  const { preset, index, eviction, allocator, scheduler, rules } = parts;
  return LiveRun.open(
    runs,
    {
      ...{ command: "kvlab serve", run: null, trace: `requests to ${model}`, requests: null },
      ...{ target: target ?? defaultBackend.name, preset: preset?.name ?? null },
      ...{ index: index.name, eviction: eviction.name, allocator: allocator.name, scheduler: scheduler.name },
      ...{ victims: String(rulesFor(index, rules).victims), blocks: blocks ?? null, blockTokens },
    },
    warn,
  );
}

/** Half of the blocks that fit beside the weights. */
const fitting = ({ memory }: EngineBackend, { loaded, bits }: RealEngine, blockTokens: number) =>
  Math.floor(tokensThatFit(memory, loaded.config, bits, memory.availableBytes()) / 2 / blockTokens);

async function listening(http: Server, host: string, port: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      http.once("error", reject);
      http.listen(port, host, resolve);
    });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE") throw new InputError(`--port ${port}: is in use; choose another one, or 0 for any`);
    if (code === "EACCES") throw new InputError(`--port ${port}: is not allowed; choose one from 1024, or 0 for any`);
    throw new InputError(`--host ${host}: the server cannot listen there (${code})`);
  }
}
