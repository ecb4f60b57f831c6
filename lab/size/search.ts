/** A combination whose number of replicas is searched. */
export interface SearchOption {
  /** Cost of a replica; whole numbers, so that equal costs are equal. */
  readonly replicaCost: number;
  /** No smaller number of replicas meets the SLO. */
  readonly fewest: number;
  readonly most: number;
  /** Options on the same hardware, which differ little in cost. */
  readonly hardware: number;
  /** Options that are the same with an unlimited cache. */
  readonly relaxed: number;
  /** Of options on the same hardware, the one with the lowest number is simulated first; this does not change the choice. */
  readonly order: number;
}

/** A simulation that the search requires: of an option, or of all options that are the same with an unlimited cache. */
export interface Probe {
  readonly option: number;
  readonly replicas: number;
  readonly unlimited: boolean;
}

export interface ProbeResult {
  readonly met: boolean;
  /** The largest ratio of a metric to its limit. */
  readonly worst: number;
  /** Nothing was evicted: the results are those of an unlimited cache. */
  readonly isUnlimited: boolean;
  /** An estimate of the replicas that are needed, if the load exceeds the capacity. */
  readonly needed?: number | undefined;
}

/** Simulates all probes, in any order; the same probe may be required again. */
export type Evaluate = (probes: readonly Probe[]) => Promise<readonly ProbeResult[]>;

/** An option and its number of replicas. */
export interface Choice {
  readonly option: number;
  readonly replicas: number;
}

/**
 * Steps of the margin to the SLO: of two choices of the same cost, one is better if its worst ratio of a metric to its limit is in a lower
 * step. Smaller differences are noise.
 */
const marginStep = 0.05;

/** Most probes that are simulated at once: with more, some would not be needed after the others. */
const [mostFirst, mostAtOnce] = [2, 8];

/** Compares choices that meet the SLO: the cheaper one, then the one with the larger margin, then the first in the list of options. */
export function compareChoices(
  one: { readonly cost: number; readonly worst: number; readonly option: number },
  other: { readonly cost: number; readonly worst: number; readonly option: number },
): number {
  const step = (worst: number) => Math.ceil(worst / marginStep);
  return one.cost - other.cost || step(one.worst) - step(other.worst) || one.option - other.option;
}

/**
 * The best choice of options and numbers of replicas by `compareChoices`, found by bisection; undefined if none meets the SLO. It is that
 * of brute force if
 *
 * 1. an option that meets the SLO with some replicas meets it with more, and
 * 2. an option misses the SLO wherever an unlimited cache misses it.
 */
export async function cheapest(options: readonly SearchOption[], evaluate: Evaluate): Promise<Choice | undefined> {
  const search = new Search(options, evaluate);
  while (await search.step());
  return await search.best();
}

/** The numbers of replicas with which an option, or all options of one kind with an unlimited cache, meets the SLO or not. */
interface Bounds {
  /** The largest number that misses the SLO, and the smallest one that meets it, as far as they are known. */
  missed: number;
  met: number;
  /** An estimate of the number that is needed. */
  needed: number;
}

/** With fewer options that differ in their cache, an unlimited cache is not simulated before them. */
const fewestRelaxed = 3;

class Search {
  readonly #options: readonly SearchOption[];
  readonly #evaluate: Evaluate;
  readonly #bounds: readonly Bounds[];
  readonly #relaxed = new Map<number, Bounds>();
  /** By kind and number of replicas: the first option that meets the SLO without an eviction. */
  readonly #equal = new Map<string, number>();

  constructor(options: readonly SearchOption[], evaluate: Evaluate) {
    this.#options = options;
    this.#evaluate = evaluate;
    this.#bounds = options.map(({ fewest }) => ({ missed: fewest - 1, met: Number.POSITIVE_INFINITY, needed: 0 }));
    for (const { relaxed } of options)
      this.#relaxed.set(relaxed, { missed: 0, met: Number.POSITIVE_INFINITY, needed: 0 });
  }

  /** Simulates the next probes; false if the lowest cost is known. */
  async step(): Promise<boolean> {
    const probes = this.#next();
    if (probes.length === 0) return false;
    const results = await this.#evaluate(probes);
    for (const [i, probe] of probes.entries()) this.#learn(probe, results[i]);
    return true;
  }

  /** Of all options that cost the least, the one with the largest margin. */
  async best(): Promise<Choice | undefined> {
    const cost = this.#lowestCost;
    if (cost === Number.POSITIVE_INFINITY) return undefined;
    const probes = this.#options.flatMap(({ replicaCost, most }, option): Probe[] => {
      const replicas = cost / replicaCost;
      const isOpen = Number.isInteger(replicas) && replicas <= most && replicas > this.#bounds[option].missed;
      return isOpen && !this.#isEqualToFormer(option, replicas) ? [{ option, replicas, unlimited: false }] : [];
    });
    const results = await this.#evaluate(probes);
    const [choice] = probes
      .map((probe, i) => ({ ...probe, ...results[i], cost }))
      .filter(({ met }) => met)
      .sort(compareChoices);
    return choice && { option: choice.option, replicas: choice.replicas };
  }

  /** Whether an option before this one has the results of an unlimited cache, which this one does not exceed. */
  #isEqualToFormer(option: number, replicas: number): boolean {
    const equal = this.#equal.get(`${this.#options[option].relaxed} ${replicas}`);
    return equal !== undefined && equal < option;
  }

  get #lowestCost(): number {
    return Math.min(...this.#options.map(({ replicaCost }, i) => this.#bounds[i].met * replicaCost));
  }

  /** The largest number of replicas of an option that is worth a simulation: it costs less than a choice that is known. */
  #largest(option: number, below: number): number {
    const { replicaCost, most } = this.#options[option];
    const replicas = below === Number.POSITIVE_INFINITY ? most : Math.ceil(below / replicaCost) - 1;
    return Math.min(most, replicas, this.#bounds[option].met - 1);
  }

  #next(): Probe[] {
    const below = this.#lowestCost;
    const open = this.#options.map((_, i) => i).filter((i) => this.#largest(i, below) > this.#bounds[i].missed);
    const started = open.filter((i) => this.#bounds[i].met < Number.POSITIVE_INFINITY);
    // An option that is known to meet the SLO lowers the cost with each further simulation.
    if (started.length > 0) return started.slice(0, mostAtOnce).map((option) => this.#middle(option, below));
    if (below === Number.POSITIVE_INFINITY) {
      const first = this.#firstProbes(open);
      if (first.length > 0) return first;
    }
    return this.#largestProbes(open, below);
  }

  #middle(option: number, below: number): Probe {
    const { missed } = this.#bounds[option];
    const replicas = Math.ceil((missed + this.#largest(option, below)) / 2);
    return { option, replicas, unlimited: false };
  }

  /**
   * Before any choice is known: the first option of each hardware, that of the lowest cost first, with as many replicas as the load
   * needs, and more each time.
   */
  #firstProbes(open: readonly number[]): Probe[] {
    const costOf = (option: number) => (this.#bounds[option].missed + 1) * this.#options[option].replicaCost;
    return open
      .filter((option) => this.#firstOfHardware(option) === option)
      .sort((one, other) => costOf(one) - costOf(other) || one - other)
      .slice(0, mostFirst)
      .map((option) => {
        const { most, fewest } = this.#options[option];
        const { missed, needed } = this.#bounds[option];
        const next = missed < fewest ? fewest : Math.max(needed, Math.ceil(1.5 * missed), missed + 1);
        return { option, replicas: Math.min(most, next), unlimited: false };
      });
  }

  #firstOfHardware(option: number): number {
    const { hardware } = this.#options[option];
    const all = this.#options.map((_, i) => i).filter((i) => this.#options[i].hardware === hardware);
    return all.reduce((first, i) => (this.#options[i].order < this.#options[first].order ? i : first), all[0]);
  }

  /**
   * The largest number of replicas that is worth a simulation: of one option of each kind, then of the others. Before several other options
   * of a kind, an unlimited cache is simulated.
   */
  #largestProbes(open: readonly number[], below: number): Probe[] {
    const ordered = [...open].sort(
      (one, other) => this.#options[one].order - this.#options[other].order || one - other,
    );
    const probes: Probe[] = [];
    const kinds = new Set<number>();
    for (const option of ordered) {
      if (probes.length === mostAtOnce) break;
      const { relaxed } = this.#options[option];
      const replicas = this.#largest(option, below);
      const alike = open.filter((other) => this.#options[other].relaxed === relaxed).length;
      const all = this.#options.filter((other) => other.relaxed === relaxed).length;
      const isKnown = this.#relaxed.get(relaxed)!.met <= replicas;
      const isFirst = alike === all;
      if (kinds.has(relaxed) && (isFirst || (alike >= fewestRelaxed && !isKnown))) continue;
      kinds.add(relaxed);
      probes.push({ option, replicas, unlimited: !isFirst && alike >= fewestRelaxed && !isKnown });
    }
    return probes;
  }

  #learn({ option, replicas, unlimited }: Probe, { met, isUnlimited, needed = 0 }: ProbeResult): void {
    const { relaxed } = this.#options[option];
    const own = this.#bounds[option];
    if (unlimited || isUnlimited) this.#learnUnlimited(relaxed, replicas, met);
    if (unlimited) return;
    own.needed = Math.max(own.needed, needed);
    if (!met) own.missed = Math.max(own.missed, replicas);
    else {
      own.met = Math.min(own.met, replicas);
      const key = `${relaxed} ${replicas}`;
      if (isUnlimited) this.#equal.set(key, Math.min(this.#equal.get(key) ?? option, option));
    }
  }

  #learnUnlimited(relaxed: number, replicas: number, met: boolean): void {
    const kind = this.#relaxed.get(relaxed)!;
    if (met) kind.met = Math.min(kind.met, replicas);
    else
      this.#options.forEach((other, i) => {
        if (other.relaxed === relaxed) this.#bounds[i].missed = Math.max(this.#bounds[i].missed, replicas);
      });
  }
}
