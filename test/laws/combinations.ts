import fc from "fast-check";
import type { EvictionPlugin, IndexPlugin } from "../../core/plugins/index.ts";
import { type RuleName, type RuleValue, ruleNames } from "../../core/plugins/rules.ts";
import { supportedConfig, supportedValues } from "../../laws/configs.ts";
import type { PluginSet } from "../../laws/plugin-set.ts";
import type { ScenarioConfig } from "../../laws/scenario.ts";
import type { Trial } from "../../laws/trial.ts";
import { workloads } from "../../laws/workloads.ts";
import { allPlugins } from "./all-plugins.ts";
import type { Row } from "./pairwise.ts";

const { evictions, allocators } = allPlugins;
const sizes = [1, 2, 3];
const limits = ["a limited cache", "an unlimited cache"];

/** The values of every rule that an index supports; of numbers the first three. */
export function choicesWith(index: IndexPlugin): Record<string, readonly RuleValue[]> {
  const rules = ruleNames.map((name) => [name, supportedValues(index, name)] as const);
  return {
    allocator: allocators.map(({ name }) => name),
    ...Object.fromEntries(rules.filter(([, values]) => values.length > 0)),
  };
}

/** The same with the other components of a cache: eviction policy, block size, limit. */
export function everyChoiceWith(index: IndexPlugin): Record<string, readonly RuleValue[]> {
  return { eviction: evictions.map(({ name }) => name), ...choicesWith(index), units: sizes, limit: limits };
}

/** A row of choices for the configurations of a trial. */
export class Combination {
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly parts: PluginSet;
  readonly #choice: Record<string, RuleValue>;

  constructor(index: IndexPlugin, choices: Record<string, readonly RuleValue[]>, row: Row, eviction?: EvictionPlugin) {
    this.index = index;
    this.#choice = Object.fromEntries(Object.keys(row).map((name) => [name, choices[name][row[name]]]));
    this.eviction = eviction ?? evictions.find(({ name }) => name === this.#choice["eviction"])!;
    const allocator = allocators.filter(({ name }) => name === (this.#choice["allocator"] ?? name));
    this.parts = { ...allPlugins, indexes: [index], evictions: [this.eviction], allocators: allocator };
  }

  get rules(): Partial<Record<RuleName, RuleValue>> {
    const choice = this.#choice;
    return Object.fromEntries(ruleNames.filter((name) => name in choice).map((name) => [name, choice[name]]));
  }

  /** The row as text. */
  get text(): string {
    const { units, limit } = this.#choice;
    const rules = Object.entries(this.rules).map(([name, value]) => `${name}=${value}`);
    const of = units === undefined ? [] : [`blocks of ${units} units`, String(limit)];
    return [`index ${this.index.name}`, `policy ${this.eviction.name}`, ...rules, ...of].join(", ");
  }

  /** The trial with the choices of the row; other settings are those of the trial. */
  of(trial: Trial): Trial {
    const configured = (config: ScenarioConfig): ScenarioConfig => {
      const { units, limit } = this.#choice;
      const blockUnits = units === undefined ? config.blockUnits : Number(units);
      const some = config.blocks ?? 1 + (config.seed % 14);
      const blocks = limit === undefined ? config.blocks : limit === limits[0] ? some : undefined;
      return supportedConfig({ ...config, eviction: this.eviction, blockUnits, blocks, rules: this.rules });
    };
    return {
      ...trial,
      // Without the bias towards small cases, in which little happens; failing cases are shrunk anyway.
      cases: (parts, small) =>
        fc.noBias(
          fc.tuple(trial.cases(parts, small), workloads({ related: true })).map(([one, workload]) => ({
            ...one,
            workload,
            config: configured(one.config),
            ...(one.script && one.config.seed % 2 === 0 && { script: one.script.map(calmed) }),
          })),
        ),
    };
  }
}

/** A decision that neither rolls back a step nor preempts a request unless blocks run out. */
const calmed = (decision: number): number => (decision % 6 === 1 || decision % 8 === 1 ? decision + 1 : decision);
