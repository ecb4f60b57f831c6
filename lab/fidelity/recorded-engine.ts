import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { whyUnreadable } from "../../traces/bytes.ts";

/** The engine of a recorded run, as far as its decisions and times depend on it. */
export interface RecordedEngine {
  /** "0.19.0". */
  readonly version: string;
  readonly model: string;
  /** Name of the GPU. */
  readonly gpu: string;
  readonly tensorParallel: number;
  readonly dataParallel: number;
  readonly expertParallel: boolean;
  readonly pipelineParallel: number;
  /** Share of the GPU's memory that the engine may use. */
  readonly memoryShare: number;
  /** Blocks of the pool as the engine reports them, the null block included; undefined if it was not recorded. */
  readonly blocks: number | undefined;
  readonly blockTokens: number;
  readonly maxSequences: number;
  readonly maxTokens: number;
  readonly prefixCaching: boolean;
  /** A request is admitted only if there are blocks for its whole prompt. */
  readonly reservesFullPrompt: boolean;
  readonly asyncScheduling: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads meta.json, with vLLM's options and, where it was recorded, its resolved configuration, and config.json, with the hardware.
 * What is in none of them has the default of vLLM 0.19.
 *
 * @throws InputError naming the file and the field
 */
export async function readRecordedEngine(folder: string): Promise<RecordedEngine> {
  const path = join(folder, "meta.json");
  const meta = new Section(path, parsed(await textOf(path), path));
  const options = meta.section("engine_kwargs");
  const resolved = meta.section("resolved_config");
  const scheduler = resolved.section("scheduler_config");
  const parallel = resolved.section("parallel_config");
  const cache = meta.section("kv_cache");
  const instance = await hardwareOf(folder);
  const known = [options, parallel];
  return {
    version: meta.text("vllm_version") ?? "unknown",
    model: options.text("model") ?? meta.text("model") ?? missing(path, "engine_kwargs.model"),
    gpu: instance?.gpu ?? deviceName(meta) ?? missing(join(folder, "config.json"), "an instance with hardware"),
    tensorParallel: count(known, "tensor_parallel_size") ?? 1,
    dataParallel: count(known, "data_parallel_size") ?? 1,
    expertParallel: flag(known, "enable_expert_parallel") ?? false,
    pipelineParallel: count(known, "pipeline_parallel_size") ?? 1,
    memoryShare:
      cache.number("gpu_memory_utilization") ?? options.number("gpu_memory_utilization") ?? instance?.share ?? 0.9,
    blocks: count([cache, resolved.section("cache_config")], "num_gpu_blocks"),
    blockTokens: count([cache, resolved.section("cache_config"), options], "block_size") ?? 16,
    maxSequences: count([scheduler, options], "max_num_seqs") ?? missing(path, "max_num_seqs"),
    maxTokens: count([scheduler, options], "max_num_batched_tokens") ?? missing(path, "max_num_batched_tokens"),
    prefixCaching: flag([cache, resolved.section("cache_config"), options], "enable_prefix_caching") ?? true,
    reservesFullPrompt: flag([scheduler, options], "scheduler_reserve_full_isl") ?? true,
    asyncScheduling: flag([scheduler, options], "async_scheduling") ?? true,
  };
}

/** GPU and usable share of its memory, from config.json; undefined if there is no such file. */
async function hardwareOf(folder: string): Promise<{ gpu: string; share: number | undefined } | undefined> {
  const path = join(folder, "config.json");
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
  if (text === undefined) return undefined;
  const { nodes } = fieldsOf(parsed(text, path));
  const [node] = Array.isArray(nodes) ? nodes : [];
  const { instances } = fieldsOf(node);
  const instance = new Section(path, Array.isArray(instances) ? instances[0] : undefined);
  const gpu = instance.text("hardware");
  if (gpu === undefined) throw new InputError(`${path}: has no nodes[0].instances[0].hardware`);
  return { gpu, share: instance.section("npu_mem").number("mem_util") };
}

/** "NVIDIA GeForce RTX 4090" → "RTX 4090". */
const deviceName = (meta: Section) =>
  meta
    .section("hardware")
    .text("device_name")
    ?.replace(/^NVIDIA (GeForce )?/, "")
    .replace(/ Blackwell.*$/, "");

function missing(path: string, field: string): never {
  throw new InputError(`${path}: has no ${field}`);
}

/** The first section that has the field. */
const count = (sections: readonly Section[], name: string) => firstOf(sections, (section) => section.count(name));
const flag = (sections: readonly Section[], name: string) => firstOf(sections, (section) => section.flag(name));

function firstOf<Value>(sections: readonly Section[], of: (section: Section) => Value | undefined): Value | undefined {
  for (const section of sections) {
    const value = of(section);
    if (value !== undefined) return value;
  }
  return undefined;
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

/** An object of a JSON file. Fields that are absent or null are undefined. */
class Section {
  readonly #where: string;
  readonly #fields: Fields;

  constructor(where: string, value: unknown) {
    this.#where = where;
    this.#fields = fieldsOf(value);
  }

  section(name: string): Section {
    return new Section(`${this.#where}: ${name}`, this.#fields[name]);
  }

  text = (name: string) => this.#of<string>(name, "a text", (value) => typeof value === "string" && value !== "");
  number = (name: string) => this.#of<number>(name, "a number", (value) => typeof value === "number" && value > 0);
  count = (name: string) =>
    this.#of<number>(name, "a whole number from 1", (value) => Number.isSafeInteger(value) && (value as number) > 0);
  flag = (name: string) => this.#of<boolean>(name, "true or false", (value) => typeof value === "boolean");

  #of<Value>(name: string, expected: string, is: (value: unknown) => boolean): Value | undefined {
    const value = this.#fields[name] ?? undefined;
    if (value === undefined || is(value)) return value as Value | undefined;
    throw new InputError(`${this.#where}: ${name} is ${JSON.stringify(value)}, expected ${expected}`);
  }
}

export async function textOf(path: string): Promise<string> {
  return await readFile(path, "utf8").catch((error) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
}

export function parsed(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InputError(`${where}: is not JSON (${(error as Error).message})`);
  }
}
