import { expect } from "vitest";
import type { IndexHost, IndexPlugin } from "../../core/plugins/index.ts";
import { caseText } from "../../laws/case-text.ts";
import type { PluginSet } from "../../laws/plugin-set.ts";
import { type Trial, violations } from "../../laws/trial.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";

/** All plug-ins. */
export const allPlugins: PluginSet = {
  indexes: indexRegistry.all,
  evictions: evictionRegistry.all,
  allocators: allocatorRegistry.all,
  schedulers: schedulerRegistry.all,
  reference: {
    index: indexRegistry.get("hash-table"),
    eviction: evictionRegistry.get("lru"),
    optimum: evictionRegistry.get("belady"),
    scheduler: schedulerRegistry.get("naive"),
  },
};

/** KVLAB_LONG=1 runs every trial for a million operations of the cache, and a fixed number of runs fifty times as often. */
export const isLong = process.env["KVLAB_LONG"] === "1";
export const runs = (count: number): number => (isLong ? 50 * count : count);
const leastOperations = 1_000_000;

/** KVLAB_CASES=0.1 runs a tenth of the cases of each trial: mutation testing runs the laws once for each mutant. */
const shareOfCases = Number(process.env["KVLAB_CASES"] ?? 1);

/** Counts the operations of all caches with these plug-ins: admissions, extensions, publications, releases ... */
class Operations {
  readonly parts: PluginSet;
  #count = 0;
  #hosts: IndexHost[] = [];

  constructor(parts: PluginSet) {
    this.parts = { ...parts, indexes: parts.indexes.map((index) => this.#counted(index)) };
  }

  /** Adds the operations of the caches created since the last call, and drops the references to these caches. */
  readonly around = (check: () => void): void => {
    check();
    this.#count = this.count;
    this.#hosts = [];
  };

  get count(): number {
    return this.#hosts.reduce((sum, host) => sum + (host as IndexHost & { tick: number }).tick, this.#count);
  }

  #counted(index: IndexPlugin): IndexPlugin {
    const create: IndexPlugin["create"] = (context, blockCount) => {
      this.#hosts.push(context.host);
      return index.create(context, blockCount);
    };
    return { ...index, create };
  }
}

/** Fails with every violation of the trial: its law, seed and smallest case. */
export function holds(trial: Trial, parts: PluginSet, share = 1): void {
  const operations = new Operations(parts);
  const options = { runs: Math.ceil(trial.runs * share * shareOfCases), around: operations.around };
  let rounds = 0;
  do {
    report(violations(trial, operations.parts, options));
    rounds++;
  } while (isLong && operations.count < leastOperations && rounds < 10_000);
  if (!isLong) return;
  console.info(`${operations.count} operations in ${rounds * options.runs} cases`);
  expect(operations.count).toBeGreaterThanOrEqual(leastOperations);
}

/** Fails with these violations; messages begin with `where`. */
export function report(found: ReturnType<typeof violations>, where = ""): void {
  if (found.length === 0) return;
  const messages = found.map(
    (one) => `${where}${one.law.statement}: ${one.message}\n${caseText(one.case)}\nseed ${one.seed}`,
  );
  throw new Error(messages.join("\n\n"), { cause: found[0].error });
}
