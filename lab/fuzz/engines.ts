import { seededRandom } from "../../core/random.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { EngineBackend } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import type { Clock } from "../../engine/clock.ts";
import type { BlockData, Executor } from "../../engine/executor.ts";
import { toBfloat16 } from "../../engine/model/floats.ts";
import { loadModel } from "../../engine/model/load.ts";
import { poolParts } from "../../engine/pool-parts.ts";
import { mostBlocks } from "./setup.ts";

/** One executor for each block size, opened on first use and shared by all cases, which run one after the other. */
export class Engines {
  readonly backend: EngineBackend;
  readonly #model = loadModel("random:tiny");
  readonly #open = new Map<number, Promise<Executor>>();
  readonly #folder: string | undefined;

  /** `folder`: the model cache, by default the user's. */
  constructor(folder?: string, backend: EngineBackend = defaultBackend) {
    this.backend = backend;
    this.#folder = folder;
  }

  get vocabulary(): number {
    return this.#model.config.vocabulary;
  }

  /** One in four tokens of the vocabulary, so that outputs end early if end tokens are enabled. */
  get endTokens(): number[] {
    return Array.from({ length: this.vocabulary / 4 }, (_, i) => 4 * i);
  }

  /** Bytes of a token's KV in the pool. */
  get tokenBytes(): number {
    return this.backend.memory.tokenBytes(this.#model.config);
  }

  get layers(): number {
    return this.#model.config.layers;
  }

  /** The largest cache, and as many blocks in which contents are recomputed. */
  async pools(blockTokens: number): Promise<readonly [pool: Executor, scratch: Executor]> {
    const blocks = mostBlocks(blockTokens);
    const [pool, scratch] = poolParts(await this.executor(blockTokens), [blocks, blocks]);
    return [pool, scratch];
  }

  executor(blockTokens: number): Promise<Executor> {
    let executor = this.#open.get(blockTokens);
    if (executor === undefined) {
      const cache = this.#folder === undefined ? {} : { folder: this.#folder };
      executor = this.backend.open({
        model: this.#model,
        blockCount: 2 * mostBlocks(blockTokens),
        blockTokens,
        ...(this.backend.hasThreads && { threads: 1 }),
        ...cache,
      });
      this.#open.set(blockTokens, executor);
    }
    return executor;
  }

  /** Fills all blocks with random keys and values, the same ones each time. */
  async fillWithNoise(blockTokens: number): Promise<void> {
    await fillWithNoise(await this.executor(blockTokens));
  }

  async close(): Promise<void> {
    for (const executor of this.#open.values()) await (await executor).close();
    this.#open.clear();
  }
}

/** Fills all blocks of a pool with the same random keys and values. */
export async function fillWithNoise(executor: Executor): Promise<void> {
  const random = seededRandom(7);
  const noise = (like: BlockData["keys"]) => {
    const floats = Float32Array.from({ length: like.length }, () => 4 * random.unit() - 2);
    return like instanceof Float32Array ? floats : toBfloat16(floats);
  };
  const [{ keys, values }] = await executor.readBlocks([0]);
  const block = { keys: noise(keys), values: noise(values) };
  const all = Array.from({ length: executor.blockCount }, (_, i) => i);
  await executor.writeBlocks(
    all,
    all.map(() => block),
  );
}

/** Random step times from a seed, or one millisecond each with seed 0; idle time is skipped. */
export class SeededClock implements Clock {
  readonly #random: ReturnType<typeof seededRandom> | undefined;
  #nowNs = 0;

  constructor(seed: number) {
    this.#random = seed === 0 ? undefined : seededRandom(seed);
  }
  now(): Nanos {
    this.#nowNs += this.#random ? 1 + this.#random.below(1_000_000) : 1_000_000;
    return this.#nowNs;
  }
  async waitUntil(timeNs: Nanos): Promise<void> {
    this.#nowNs = Math.max(this.#nowNs, timeNs);
  }
}
