import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { batchingExtremes } from "./batching-extremes.ts";
import { blockSize } from "./block-size.ts";
import { continuousBatching } from "./continuous-batching.ts";
import { continuum } from "./continuum.ts";
import { disaggregation } from "./disaggregation.ts";
import { efficientRouter } from "./efficient-router.ts";
import type { Experiment } from "./experiment.ts";
import { inTheWild } from "./in-the-wild.ts";
import { lightllmSharegpt } from "./lightllm-sharegpt.ts";
import { lmdeploy1407 } from "./lmdeploy-1407.ts";
import { marconi } from "./marconi.ts";
import { mooncakeToolagent } from "./mooncake-toolagent.ts";
import { prefixPool } from "./prefix-pool.ts";
import { roseinfer } from "./roseinfer.ts";
import { routers } from "./routers.ts";
import { scanResistance } from "./scan-resistance.ts";
import { tLru } from "./t-lru.ts";
import { tokenAttention } from "./token-attention.ts";

/** In the order in which they are listed. */
export const experiments: readonly Experiment[] = [
  roseinfer,
  lmdeploy1407,
  blockSize,
  prefixPool,
  efficientRouter,
  tokenAttention,
  lightllmSharegpt,
  continuousBatching,
  batchingExtremes,
  routers,
  disaggregation,
  continuum,
  scanResistance,
  tLru,
  marconi,
  inTheWild,
  mooncakeToolagent,
];

/** @throws InputError with the nearest name, or all of them. */
export function experimentNamed(name: string): Experiment {
  const found = experiments.find((experiment) => experiment.name === name);
  if (found) return found;
  const names = experiments.map((experiment) => experiment.name);
  const near = nearest(name, names);
  throw new InputError(
    `no experiment "${name}": ${near ? `did you mean "${near}"?` : `expected one of ${names.join(", ")}`}`,
  );
}
