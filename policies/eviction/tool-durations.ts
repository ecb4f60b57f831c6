import type { Nanos } from "../../core/trace/trace.ts";

/** The last durations of a tool, at most `most`, in ascending order. */
class Durations {
  readonly sorted: Nanos[] = [];
  readonly #byAge: Nanos[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  add(duration: Nanos): void {
    if (this.#byAge.push(duration) > this.#most) this.sorted.splice(this.#placeOf(this.#byAge.shift()!), 1);
    this.sorted.splice(this.#placeOf(duration), 0, duration);
  }

  /** The first place whose duration is not smaller. */
  #placeOf(duration: Nanos): number {
    let from = 0;
    let to = this.sorted.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.sorted[middle] < duration) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

const mostDurations = 512;

/** Durations of tool calls, by tool and of all tools. */
export class ToolDurations {
  readonly #all = new Durations(mostDurations);
  readonly #byTool = new Map<number, Durations>();

  add(tool: number, duration: Nanos): void {
    this.#all.add(duration);
    let durations = this.#byTool.get(tool);
    if (durations === undefined) this.#byTool.set(tool, (durations = new Durations(mostDurations)));
    durations.add(duration);
  }

  /** The durations of the tool in ascending order, or of all tools if it has fewer than `least`; undefined if these are too few as well. */
  of(tool: number, least: number): readonly Nanos[] | undefined {
    for (const durations of [this.#byTool.get(tool), this.#all])
      if (durations !== undefined && durations.sorted.length >= least) return durations.sorted;
    return undefined;
  }
}

/**
 * The time to live τ, one of the durations, for which P(a tool call ends within τ) · saved − τ is largest; 0 if that is not positive.
 * `saved`: what a hit saves.
 */
export function bestTimeToLive(durations: readonly Nanos[], saved: Nanos): Nanos {
  let best = 0;
  let mostGained = 0;
  for (let i = 0; i < durations.length; i++) {
    const gained = ((i + 1) / durations.length) * saved - durations[i];
    if (gained <= mostGained) continue;
    mostGained = gained;
    best = durations[i];
  }
  return best;
}
