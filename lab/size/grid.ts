import { InputError } from "../../core/errors.ts";
import type { RouterPlugin } from "../../core/plugins/index.ts";
import type { Configuration } from "../compare/comparison.ts";
import { nameOf, type SimulationOptions } from "../run/simulation-options.ts";
import type { Measurement } from "./measurements.ts";
import type { SearchOption } from "./search.ts";

/** GPUs of a replica. */
export interface Machine {
  readonly gpu: string;
  readonly tensorParallel: number;
  /** With pipeline parallelism all of its stages. */
  readonly gpus: number;
  /** Price of a GPU, in millionths of the currency per hour. */
  readonly microsPerGpuHour: number;
  /** Bytes for the cache on each GPU. */
  readonly cacheBytes: number;
  readonly load: SimulationOptions;
}

/** Presets with their eviction policies; of one preset they are the same with an unlimited cache. */
export interface Composition {
  readonly preset: number;
  readonly configuration: Configuration;
  readonly blockTokens: number;
  /** Number of the trace's blocks. */
  readonly input: number;
}

/** A combination of everything but the number of replicas. */
export interface GridOption extends SearchOption {
  readonly machine: Machine;
  readonly composition: Composition;
  readonly router: string | RouterPlugin;
  /** Given bytes of the cache on each GPU. */
  readonly capacity: number | undefined;
}

export interface GridLists {
  readonly machines: readonly Machine[];
  readonly compositions: readonly Composition[];
  readonly routers: readonly (string | RouterPlugin)[];
  readonly capacities: readonly (number | undefined)[];
  readonly maxGpus: number;
}

/**
 * All combinations, in the order of the lists. `fewest`: the fewest replicas of a machine with a preset; infinite if no number meets the
 * SLO.
 */
export function gridOf(
  { machines, compositions, routers, capacities, maxGpus }: GridLists,
  fewest: (machine: Machine, preset: number) => number,
): GridOption[] {
  const presets = 1 + Math.max(...compositions.map(({ preset }) => preset));
  return machines.flatMap((machine, hardware) =>
    compositions.flatMap((composition) =>
      routers.flatMap((router, r) =>
        capacities
          .filter((capacity) => capacity === undefined || capacity <= machine.cacheBytes)
          .map((capacity) => ({
            ...{ machine, composition, router, capacity, hardware },
            replicaCost: machine.microsPerGpuHour * machine.gpus,
            fewest: fewest(machine, composition.preset),
            most: Math.floor(maxGpus / machine.gpus),
            order: promise(router),
            relaxed: (hardware * presets + composition.preset) * routers.length + r,
          })),
      ),
    ),
  );
}

/** Routers that find prefixes need fewer replicas as a rule, those that do not read the load more. */
const promising = [
  "prefix-affinity",
  "dynamo-kv",
  "session-affinity",
  "consistent-hash",
  "least-loaded",
  "power-of-two",
];

function promise(router: string | RouterPlugin): number {
  const at = promising.indexOf(routerName(router));
  return at < 0 ? promising.length : at;
}

/** Replaces parts of a cluster, to find out what they change. */
export interface Change {
  readonly unlimited?: boolean;
  readonly capacity?: number;
  readonly schedulerOption?: Readonly<Record<string, number>>;
}

/** The simulation of an option with some replicas. Options that differ only in the router are the same with one replica. */
export function clusterOf(
  { machine, composition, router, capacity }: GridOption,
  replicas: number,
  { seed, warmup }: { readonly seed: number; readonly warmup: number },
  change: Change = {},
): Measurement {
  const bytes = change.unlimited ? undefined : (change.capacity ?? capacity);
  const load: SimulationOptions = {
    ...machine.load,
    ...(change.schedulerOption && { schedulerOption: { ...machine.load.schedulerOption, ...change.schedulerOption } }),
    ...(replicas > 1 && { replicas, router }),
    ...(bytes !== undefined && { capacity: bytes }),
  };
  const { configuration, blockTokens, input } = composition;
  const unlimited = change.unlimited ?? false;
  return { parts: configuration.parts, cluster: { input, blockTokens, load, unlimited, seed, warmup } };
}

/** @throws InputError if a list is not one of online policies, or a cache is larger than the memory of every GPU */
export function checkLists({ machines, compositions, capacities }: Omit<GridLists, "maxGpus" | "routers">): void {
  const offline = compositions.find(({ configuration }) => configuration.kind !== "online");
  if (offline)
    throw new InputError(
      `--eviction ${offline.configuration.label} cannot be used by a server: it reads the future or needs unlimited memory`,
    );
  const largest = Math.max(...machines.map(({ cacheBytes }) => cacheBytes));
  for (const capacity of capacities)
    if (capacity !== undefined && capacity > largest)
      throw new InputError(
        `--capacity contains ${capacity} bytes; no GPU has more than ${Math.floor(largest)} for its cache with this model`,
      );
}

export const routerName = (router: string | RouterPlugin): string => nameOf(router);
