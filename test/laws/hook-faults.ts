import fc from "fast-check";
import type { EvictionContext, EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";
import { configs } from "../../laws/configs.ts";
import { runScenario, type Scenario } from "../../laws/scenario.ts";
import { workloads } from "../../laws/workloads.ts";
import { indexRegistry } from "../../policies/registry.ts";
import { allPlugins } from "./all-plugins.ts";

/** The messages of all violations in scenarios with this policy and every index. */
export function violationsWith(eviction: EvictionPlugin): string {
  const scenarios = fc.record({
    workload: workloads(),
    config: configs({ ...allPlugins, indexes: indexRegistry.all, evictions: [eviction] }, { noRules: true }),
    script: fc.array(fc.nat(23), { minLength: 100, maxLength: 300, size: "max" }),
  });
  const seen = new Set<string>();
  for (const { config, ...scenario } of fc.sample(scenarios, { numRuns: 120, seed: 1 })) {
    const bounded: Scenario = { ...scenario, config: { ...config, blocks: config.blocks ?? 8 } };
    try {
      runScenario(bounded);
    } catch (error) {
      seen.add((error as Error).message.split("\n")[0]);
    }
  }
  return [...seen].join("\n");
}

/** The policy with some methods replaced. */
export function broken(
  plugin: EvictionPlugin,
  change: (inner: EvictionPolicy, context: EvictionContext) => Partial<EvictionPolicy>,
) {
  return {
    ...plugin,
    create(context: EvictionContext) {
      const inner = plugin.create(context);
      const own = change(inner, context);
      return new Proxy(inner, {
        get(_, name) {
          if (Object.hasOwn(own, name)) return Reflect.get(own, name);
          const value = Reflect.get(inner, name, inner);
          return typeof value === "function" ? value.bind(inner) : value;
        },
      });
    },
  };
}
