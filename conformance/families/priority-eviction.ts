import { defaultPriority, highestPriority, Levels } from "../../policies/eviction/levels.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, number, record, shown, Unsupported } from "../values.ts";

/** TensorRT-LLM: queues of free blocks by priority, which may have a time limit. */
export const priorityEviction: Family = {
  name: "priority-eviction",
  configKeys: ["default_priority", "offload_min_priority", "primary", "secondary"],
  ops: {
    next: { inputs: [], expects: { block: "plain", offload: "plain" } },
    claim: { inputs: ["block", "duration_ms", "priority"], expects: {} },
    release: { inputs: ["at_ms", "block"], expects: {} },
    next_and_claim: { inputs: ["as_", "duration_ms", "priority"], expects: {} },
    claim_rest: { inputs: [], expects: {} },
    refresh: { inputs: ["at_ms"], expects: {} },
    state: { inputs: [], expects: { priority: "plain" } },
  },
  start: (config) => new PriorityQueues(config),
};

const maxBlocks = 2 ** 20;
const nsPerMs = 1e6;

/**
 * The blocks of the device, initially free and in the order of their numbers. Blocks in host memory are in separate queues,
 * which no operation reads. Time limits take effect when `refresh` is called, as in the original.
 */
class PriorityQueues implements Instance {
  readonly #levels: Levels;
  readonly #blockCount: number;
  readonly #offloadFrom: number;
  /** Blocks by their names in the case. */
  readonly #named = new Map<string, number>();
  /** Blocks that the case has mentioned. */
  readonly #mentioned = new Set<number>();
  #now = 0;
  #refreshed = 0;

  constructor({ primary, secondary = 0, default_priority: initial, offload_min_priority: offload = 30 }: Fields) {
    this.#blockCount = integer(primary, "primary", 1);
    if (this.#blockCount > maxBlocks) throw new Unsupported(`more than ${maxBlocks} blocks`);
    integer(secondary, "secondary");
    this.#offloadFrom = integer(offload, "offload_min_priority");
    const level = initial === undefined ? defaultPriority : levelOf(initial, "default_priority");
    this.#levels = new Levels(this.#blockCount, { initial: level, expired: level, expiredPlace: "end" });
    for (let block = 0; block < this.#blockCount; block++) this.#levels.add(block, 0);
  }

  run(op: string, inputs: Fields): Found {
    if (op === "next") return this.#next();
    if (op === "state") return { priority: (expected: unknown) => this.#priorities(expected) };
    if (op === "claim") this.#claim(this.#mention(inputs["block"]), inputs);
    else if (op === "release") this.#release(this.#mention(inputs["block"]), inputs["at_ms"]);
    else if (op === "next_and_claim") this.#claimNext(inputs);
    else if (op === "claim_rest") this.#claimRest();
    else this.#refresh(inputs["at_ms"]);
    return {};
  }

  get #first(): number | undefined {
    return this.#levels.victim(this.#refreshed);
  }

  #next(): Found {
    const first = this.#first;
    if (first === undefined) return { block: null, offload: false };
    return {
      block: (expected: unknown) => (this.#block(expected) === first ? expected : this.#nameOf(first)),
      offload: this.#levels.levelOf(first) >= this.#offloadFrom,
    };
  }

  #claim(block: number, { priority, duration_ms: duration }: Fields): void {
    const level = priority === undefined || priority === null ? undefined : levelOf(priority, "priority");
    const ms = duration === undefined || duration === null ? undefined : number(duration, "duration_ms");
    if (ms !== undefined && ms <= 0) throw new Unsupported(`duration_ms is ${ms}, expected more than 0`);
    this.#levels.setLevel(block, level, (ms ?? 0) * nsPerMs);
  }

  #claimNext(inputs: Fields): void {
    const first = this.#first;
    if (first === undefined) throw new Unsupported("there is no free block to claim");
    if (inputs["as_"] !== undefined) this.#named.set(name(inputs["as_"], "as_"), first);
    this.#mentioned.add(first);
    this.#claim(first, inputs);
  }

  #claimRest(): void {
    for (let block = 0; block < this.#blockCount; block++) if (this.#levels.has(block)) this.#claim(block, {});
  }

  #release(block: number, at: unknown): void {
    if (this.#levels.has(block)) throw new Unsupported(`block ${this.#nameOf(block)} is already free`);
    this.#advanceTo(at);
    this.#levels.add(block, this.#now);
  }

  #refresh(at: unknown): void {
    this.#advanceTo(at);
    this.#refreshed = this.#now;
    this.#levels.refresh(this.#now);
  }

  #advanceTo(at: unknown): void {
    if (at === undefined) return;
    const now = number(at, "at_ms") * nsPerMs;
    if (now < this.#now) throw new Unsupported(`at_ms is ${shown(at)}, which is before ${this.#now / nsPerMs}`);
    this.#now = now;
  }

  /** The block of a number or of a name in the case. */
  #block(value: unknown): number {
    const named = this.#named.get(name(value, "block"));
    if (named !== undefined) return named;
    const block = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : integer(value, "block");
    if (block < this.#blockCount) return block;
    throw new Unsupported(`block is ${block}, expected one below ${this.#blockCount}`);
  }

  #mention(value: unknown): number {
    const block = this.#block(value);
    this.#mentioned.add(block);
    return block;
  }

  #nameOf(block: number): string | number {
    for (const [named, each] of this.#named) if (each === block) return named;
    return block;
  }

  /** Priorities of the expected blocks; a single number is that of the only block that the case has mentioned. */
  #priorities(expected: unknown): unknown {
    const [only, ...others] = this.#mentioned;
    if (typeof expected === "number" && only !== undefined && others.length === 0) return this.#levels.levelOf(only);
    const blocks = Object.keys(record(expected, "priority"));
    return Object.fromEntries(blocks.map((block) => [block, this.#levels.levelOf(this.#block(block))]));
  }
}

function levelOf(value: unknown, what: string): number {
  const level = integer(value, what);
  if (level <= highestPriority) return level;
  throw new Unsupported(`${what} is ${level}, expected at most ${highestPriority}`);
}
