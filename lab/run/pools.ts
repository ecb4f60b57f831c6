import { InputError } from "../../core/errors.ts";
import { createRouter, type RouterConfig } from "../../core/replica/compose.ts";
import type { DisaggregationConfig, KvLink } from "../../core/serving/disaggregation.ts";
import { cachedTokenBytes, kvLayerBytes, kvNumberBytes, windowLayers } from "../../sim/cost/kv-bytes.ts";
import { pluginNamed } from "./configuration.ts";
import type { Simulated, SimulatedPools } from "./simulated.ts";
import { nameOf, optionNames, type SimulationOptions } from "./simulation-options.ts";

/** A network interface of 400 Gbit/s. */
const defaultKvLink: KvLink = { bytesPerS: 50e9, latencyNs: 10_000 };

/**
 * Pools of prefill and decode replicas by the options; undefined without them. `router` is that of the prefill replicas.
 *
 * @throws InputError if options contradict each other or a router is unknown
 */
export async function poolsFrom(
  options: SimulationOptions,
  router: RouterConfig["router"],
): Promise<SimulatedPools | undefined> {
  const { prefillReplicas, decodeReplicas, decodeRouter, kvLink = defaultKvLink, replicas } = options;
  if (prefillReplicas === undefined || decodeReplicas === undefined) {
    const names = ["prefillReplicas", "decodeReplicas", "decodeRouter", "kvLink"] as const;
    const given = names.find((name) => options[name] !== undefined);
    if (given === undefined) return undefined;
    const missing = names.slice(0, 2).filter((name) => options[name] === undefined);
    throw new InputError(
      `--${optionNames[given]} needs ${missing.map((name) => `--${optionNames[name]}`).join(" and ")}`,
    );
  }
  if (replicas !== undefined)
    throw new InputError("--replicas and --prefill-replicas exclude each other: every replica is of one pool");
  if (decodeRouter !== undefined && decodeReplicas === 1)
    throw new InputError(`--decode-router ${nameOf(decodeRouter)} has no effect with one decode replica`);
  const chosen = decodeRouter === undefined ? router : await pluginNamed("router", decodeRouter);
  return { prefillReplicas, decodeReplicas, decodeRouter: chosen, link: kvLink };
}

/** The simulator's configuration of the pools. The KV of window layers is that of the last tokens of a prompt. */
export function disaggregationOf(
  { disaggregation, model, kvDtype }: Simulated,
  blockTokens: number,
  seed: number,
): DisaggregationConfig | undefined {
  if (disaggregation === undefined) return undefined;
  const { prefillReplicas, decodeReplicas, decodeRouter: router, link } = disaggregation;
  const numberBytes = kvNumberBytes(kvDtype, model);
  const tokenBytes = cachedTokenBytes(model, numberBytes);
  const windowTokenBytes = windowLayers(model) * kvLayerBytes(model, numberBytes);
  const window = model.window?.tokens ?? 0;
  return {
    prefillReplicas,
    ...(decodeReplicas > 1 && {
      decodeRouter: createRouter({ router, replicaCount: decodeReplicas, blockTokens, seed: seed + 1 }),
    }),
    link,
    kvBytes: (tokens) => tokens * tokenBytes + Math.min(tokens, window) * windowTokenBytes,
  };
}
