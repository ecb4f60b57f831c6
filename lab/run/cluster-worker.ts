import type { RouterPlugin } from "../../core/plugins/index.ts";
import { readProfile } from "../profiles/read-profile.ts";
import { serveTasks } from "../threads/serve-tasks.ts";
import type { ClusterData } from "./cluster-threads.ts";
import { partsNamed } from "./configuration.ts";
import { simulationConfig } from "./simulation.ts";
import { type PartResult, repeating, simulatePart } from "./split-cluster.ts";

/** The program of a thread that simulates some replicas of a cluster. */
serveTasks<ClusterData, readonly number[], PartResult | undefined>(
  async (own, { batches, routes, parts, config, simulated, keepSteps }, advance) => {
    const router: RouterPlugin = { name: "known", about: "", source: "", create: () => repeating(routes) };
    const named = { ...(await partsNamed(parts, config.rules, "sim")), ...config };
    const { profileFolder, tensorParallel } = simulated;
    const profile = profileFolder && (await readProfile(profileFolder, tensorParallel));
    const system = { ...simulated, profile, router: { router, routerOptions: undefined } };
    const simulation = await simulationConfig(named, system);
    return await simulatePart(batches, simulation, { own, keepSteps, advance });
  },
);
