import { rulesFor } from "../../core/replica/compose.ts";
import { lru } from "../../policies/eviction/index.ts";
import { gapsClosed, type OfflineBounds } from "../bound/offline-bounds.ts";
import type { OfflineBound, Ratios } from "../output/hit-ratios.ts";
import type { RunReport } from "../output/report.ts";
import type { Run } from "../run/run.ts";
import type { Configuration } from "./comparison.ts";

/** A run of a configuration at one capacity, with the requests that it refused. */
export interface FinishedRun {
  readonly run: Run;
  readonly refused: ReadonlySet<number>;
  readonly ratios: RunReport["cache"]["hitRatio"];
}

/**
 * Finds the reference of each configuration: the same with lru as eviction policy. It is one of the compared configurations, or
 * one that is run for its hit ratio only.
 */
export class References {
  readonly #numbers = new Map<object, number>();
  readonly #byKey = new Map<string, Configuration>();

  constructor(configurations: readonly Configuration[]) {
    for (const one of configurations) if (one.parts.eviction === lru) this.#byKey.set(this.#keyOf(one), one);
    for (const one of configurations) {
      const key = this.#keyOf(one);
      if (one.kind === "online" && !this.#byKey.has(key)) this.#byKey.set(key, withLru(one));
    }
  }

  /** The reference of a configuration; undefined for bounds whose combination is not compared. */
  of(configuration: Configuration): Configuration | undefined {
    return configuration.kind === "unlimited" ? undefined : this.#byKey.get(this.#keyOf(configuration));
  }

  /** References that are not compared themselves. */
  others(configurations: readonly Configuration[]): number {
    return [...this.#byKey.values()].filter((one) => !configurations.includes(one)).length;
  }

  #keyOf({ parts: { index, allocator, scheduler, rules, preset }, blocksOf, seed }: Configuration): string {
    const objects = [index, allocator, scheduler, preset, blocksOf].map((part) => part && this.#numberOf(part));
    return JSON.stringify([objects, rulesFor(index, rules), seed]);
  }

  #numberOf(part: object): number {
    const known = this.#numbers.get(part) ?? this.#numbers.size;
    this.#numbers.set(part, known);
    return known;
  }
}

const withLru = (one: Configuration): Configuration => ({
  ...one,
  parts: { ...one.parts, eviction: lru },
  label: lru.name,
});

/** The bound of a run, and the share of the gap between lru and the bound that its policy closes. */
export async function boundOf(
  bounds: OfflineBounds,
  { run, refused, ratios }: FinishedRun,
  reference: Ratios,
): Promise<OfflineBound> {
  const { hitRatio, reached } = await bounds.of(run.config, run.result.counters, refused);
  const lruRatios = Object.fromEntries(
    Object.keys(hitRatio).map((metric) => [metric, reference[metric as keyof Ratios]]),
  );
  return { hitRatio, reached, lru: lruRatios, gapClosed: gapsClosed(ratios, reference, hitRatio) };
}
