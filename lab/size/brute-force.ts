import type { Clusters } from "./clusters.ts";
import { type Choice, compareChoices } from "./search.ts";
import type { Sizing } from "./sizing.ts";

/** The best choice of all options with each number of replicas, each of which is simulated. */
export async function bruteForce(
  { options }: Pick<Sizing, "options">,
  clusters: Clusters,
): Promise<Choice | undefined> {
  const probes = options.flatMap(({ most }, option) =>
    Array.from({ length: most }, (_, i) => ({ option, replicas: i + 1, unlimited: false })),
  );
  const results = await clusters.evaluate(probes);
  const [best] = probes
    .map((probe, i) => ({ ...probe, ...results[i], cost: options[probe.option].replicaCost * probe.replicas }))
    .filter(({ met }) => met)
    .sort(compareChoices);
  return best && { option: best.option, replicas: best.replicas };
}
