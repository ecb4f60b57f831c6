import { blockKeysFor } from "../../core/replica/compose.ts";
import { rowDifference } from "../../engine/contents/difference.ts";
import type { EngineConfig } from "../../engine/engine-loop.ts";
import { decisionCounts } from "../compare/decisions.ts";
import type { Engines } from "./engines.ts";
import type { Checked, Failure, FuzzCase, FuzzKind } from "./kinds.ts";
import { choiceOf, onEngine } from "./serving.ts";
import { configOf, type FuzzParts, mostBlocks, type Setup } from "./setup.ts";

/** The output of a request: each token and the logits that it was chosen from. */
type Output = { readonly token: number; readonly logits: Float32Array | undefined }[];

/**
 * Compares the engine with itself without a cache, where each request is served alone and computes its whole prompt. Logits must be
 * bit-identical, or within the backend's tolerance; then a request is not compared after a token that differs, which may be another
 * one of nearly equal logits.
 */
export const caching = (engines: Engines): FuzzKind => ({
  name: "caching",
  property: "the engine generates the same tokens from the same logits with its cache and without one",
  check: (one, parts) => compared(one, parts, engines),
});

async function compared(one: FuzzCase, parts: FuzzParts, engines: Engines): Promise<Checked> {
  const { trace, setup } = one;
  const choice = choiceOf(setup, trace, engines);
  const cached = await outputsOf(one, setup, parts, engines, choice);
  const alone = await outputsOf({ ...one, operations: [] }, withoutCache(setup), parts, engines, choice);
  const tolerance = engines.backend.contentsTolerance?.logits;
  const failure = firstDifference(cached.outputs, alone.outputs, cached.served.outcomes.refused, tolerance);
  return { decisions: decisionCounts(cached.served), failure };
}

async function outputsOf(
  one: FuzzCase,
  setup: Setup,
  parts: FuzzParts,
  engines: Engines,
  choice: NonNullable<EngineConfig["choice"]>,
) {
  const { trace } = one;
  const config = configOf(setup, parts);
  const columns = blockKeysFor(config, trace.unitTokens).of(trace);
  const outputs = Array.from({ length: trace.requestCount }, (): Output => []);
  const onToken: EngineConfig["onToken"] = ({ id }, token, _, logits) =>
    outputs[id].push({ token, logits: logits?.slice() });
  // A read of a block that was never written changes the output, in every run in the same way.
  await engines.fillWithNoise(config.blockTokens);
  return { served: await onEngine(one, setup, config, columns, engines, { choice, onToken }), outputs };
}

const withoutCache = ({ blockTokens, ...setup }: Setup): Setup => ({
  ...setup,
  ...{ index: "none", eviction: "lru", allocator: "block", scheduler: "naive", schedulerOptions: {}, rules: {} },
  blockTokens,
  blocks: mostBlocks(blockTokens),
  hostBlocks: 0,
});

function firstDifference(
  cached: readonly Output[],
  alone: readonly Output[],
  refused: ArrayLike<number>,
  tolerance: number | undefined,
): Failure | undefined {
  for (const [request, output] of cached.entries()) {
    const failure = outputDifference(request, output, alone[request], refused[request] === 1, tolerance);
    if (failure) return failure;
  }
  return undefined;
}

function outputDifference(
  request: number,
  output: Output,
  expected: Output,
  refused: boolean,
  tolerance: number | undefined,
): Failure | undefined {
  for (const [at, { token, logits }] of output.entries()) {
    const other = expected[at];
    const where = `token ${at} of request ${request}`;
    if (logits && other?.logits && differ(logits, other.logits, tolerance))
      return { category: "logits", message: `the logits of ${where} differ from those without a cache` };
    if (token === other?.token) continue;
    if (other && tolerance !== undefined) return undefined;
    return { category: "token", message: `${where} is ${token}, without a cache ${other?.token ?? "is missing"}` };
  }
  if (output.length < expected.length && !refused)
    return {
      category: "length",
      message: `request ${request} generates ${output.length} tokens, without a cache ${expected.length}`,
    };
  return undefined;
}

function differ(logits: Float32Array, other: Float32Array, tolerance: number | undefined): boolean {
  const difference = rowDifference(logits, other);
  return difference !== undefined && !(tolerance !== undefined && difference.relativeError <= tolerance);
}
