import { availableParallelism } from "node:os";
import type { RouterPlugin } from "../../core/plugins/index.ts";
import { programOf } from "../../engine/worker/thread.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { type Control, counting } from "../control.ts";
import type { BlockBatch } from "../run/block-stream.ts";
import type { PartNames, Parts } from "../run/configuration.ts";
import { pluginNames } from "../threads/plugin-names.ts";
import { inShared, sharedBatches } from "../threads/shared-batches.ts";
import { TaskThreads } from "../threads/task-threads.ts";
import type { TraceTotals } from "../trace-stream.ts";
import type { SessionGroups } from "../uncertainty/session-groups.ts";
import { isPluginFile } from "../user-plugins/plugin-file.ts";
import { type Cluster, type Measured, type MeasuredTrace, measure } from "./measure.ts";

/** A measurement of plug-ins that another thread finds by name. */
export interface MeasureTask {
  readonly names: PartNames;
  readonly rules: Parts["rules"];
  readonly cluster: Cluster;
}

export interface SizeThreadData {
  /** By input of a cluster. */
  readonly batches: readonly (readonly BlockBatch[])[];
  readonly totals: TraceTotals;
  readonly groups: SessionGroups;
}

/** A cluster with the plug-ins of its replicas. */
export interface Measurement {
  readonly parts: Parts;
  readonly cluster: Cluster;
}

/** Fewer requests than this are simulated in the main thread: a thread takes about a second to start in a checkout. */
const leastRequests = 5000;

/** What the measurements of a search have in common. */
export interface MeasurementSetup extends Control {
  readonly trace: MeasuredTrace;
  /** The plug-ins of all measurements. */
  readonly parts: readonly Parts[];
  readonly routers: readonly (string | RouterPlugin)[];
  /** Most threads; undefined: the processors of the machine, if the trace is long enough. */
  readonly threads?: number | undefined;
}

/** Simulates clusters, each once, in threads if that is worth it and all plug-ins have names. */
export class Measurements {
  readonly #setup: MeasurementSetup;
  readonly #threads: TaskThreads<MeasureTask, Measured> | undefined;
  readonly #known = new Map<string, Measured>();
  /** Plug-ins by their numbers in keys. */
  readonly #numbered: object[] = [];

  private constructor(setup: MeasurementSetup, threads: TaskThreads<MeasureTask, Measured> | undefined) {
    this.#setup = setup;
    this.#threads = threads;
  }

  static async open(setup: MeasurementSetup): Promise<Measurements> {
    const { trace, parts, routers, threads } = setup;
    const { totals, groups, inputs } = trace;
    const most = threads ?? (totals.requests < leastRequests ? 1 : availableParallelism());
    const areNamed = parts.every((each) => namesOf(each) !== undefined) && routers.every(isBuiltIn);
    const batches = most > 1 && areNamed ? await Promise.all(inputs.map((input) => sharedBatches(input))) : [undefined];
    if (batches.includes(undefined)) return new Measurements(setup, undefined);
    const shared = { ...groups, groupOf: inShared({ groupOf: groups.groupOf }).groupOf };
    const data: SizeThreadData = { batches: batches as BlockBatch[][], totals, groups: shared };
    return new Measurements(setup, new TaskThreads(programOf(import.meta.url, "size-worker"), data, most));
  }

  /** Simulations so far. */
  get count(): number {
    return this.#known.size;
  }

  /** The results, in the order of the measurements. @throws Interrupted, InputError, PolicyError */
  async all(measurements: readonly Measurement[]): Promise<Measured[]> {
    const keys = measurements.map((one) => this.#keyOf(one));
    const unknown = new Map<string, Measurement>();
    for (const [i, key] of keys.entries()) if (!this.#known.has(key)) unknown.set(key, measurements[i]);
    const results = await this.#run([...unknown.values()]);
    for (const [i, key] of [...unknown.keys()].entries()) this.#known.set(key, results[i]);
    return keys.map((key) => this.#known.get(key)!);
  }

  /** Ends the threads. */
  close(): void {
    this.#threads?.close();
  }

  async #run(measurements: readonly Measurement[]): Promise<Measured[]> {
    if (measurements.length === 0) return [];
    const { trace, signal } = this.#setup;
    const [first, last] = [this.count + 1, this.count + measurements.length];
    const doing = first === last ? `simulation ${first}` : `simulations ${first} to ${last}`;
    const advance = counting(this.#setup, doing, trace.totals.requests * measurements.length);
    if (this.#threads) {
      const tasks = measurements.map(({ parts, cluster }) => ({ names: namesOf(parts)!, rules: parts.rules, cluster }));
      return await this.#threads.run(tasks, { advance, signal });
    }
    const results: Measured[] = [];
    for (const { parts, cluster } of measurements)
      results.push(await measure(parts, cluster, trace, { advance, signal }));
    return results;
  }

  #keyOf({ parts, cluster }: Measurement): string {
    const named = (name: string, value: unknown) =>
      name === "router" && typeof value === "object" ? this.#numberOf(value!) : value;
    return `${this.#numberOf(parts)} ${JSON.stringify(cluster, named)}`;
  }

  #numberOf(plugin: object): number {
    const known = this.#numbered.indexOf(plugin);
    return known >= 0 ? known : this.#numbered.push(plugin) - 1;
  }
}

const isBuiltIn = (router: string | RouterPlugin) => typeof router === "string" && !isPluginFile(router);

/** The names of plug-ins and preset; undefined if one is a user's. */
function namesOf(parts: Parts): PartNames | undefined {
  const { preset } = parts;
  const names = pluginNames(parts);
  if (names === undefined || (preset !== undefined && !presetRegistry.all.includes(preset))) return undefined;
  return { ...names, ...(preset && { preset: preset.name }) };
}
