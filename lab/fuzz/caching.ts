import { blockKeysFor } from "../../core/replica/compose.ts";
import type { EngineConfig } from "../../engine/engine.ts";
import { decisionCounts } from "../compare/decisions.ts";
import type { Engines } from "./engines.ts";
import type { Checked, FuzzCase, FuzzKind, Trouble } from "./kinds.ts";
import { choiceOf, onEngine } from "./serving.ts";
import { configOf, type FuzzParts, mostBlocks, type Setup } from "./setup.ts";

/** What a request wrote: each token, and the logits that it was chosen after, but for those stored with its prompt. */
type Answer = { readonly token: number; readonly logits: Float32Array | undefined }[];

/** The engine against itself without a cache, where each request is served alone and computes all of its prompt. */
export const caching = (engines: Engines): FuzzKind => ({
  name: "caching",
  says: "the engine writes the same answers after the same logits with its cache and without one",
  check: (one, parts) => compared(one, parts, engines),
});

async function compared(one: FuzzCase, parts: FuzzParts, engines: Engines): Promise<Checked> {
  const { trace, setup } = one;
  const choice = choiceOf(setup, trace, engines);
  const cached = await answered(one, setup, parts, engines, choice);
  const alone = await answered({ ...one, operations: [] }, withoutCache(setup), parts, engines, choice);
  const trouble = firstDifference(cached.answers, alone.answers, cached.served.outcomes.refused);
  return { decisions: decisionCounts(cached.served), trouble };
}

async function answered(
  one: FuzzCase,
  setup: Setup,
  parts: FuzzParts,
  engines: Engines,
  choice: NonNullable<EngineConfig["choice"]>,
) {
  const { trace } = one;
  const config = configOf(setup, parts);
  const columns = blockKeysFor(config, trace.unitTokens).of(trace);
  const answers = Array.from({ length: trace.requestCount }, (): Answer => []);
  const onToken: EngineConfig["onToken"] = ({ id }, token, _, logits) =>
    answers[id].push({ token, logits: logits?.slice() });
  // A read of a block that was never written changes the output, in every run in the same way.
  await engines.spoil(config.blockTokens);
  return { served: await onEngine(one, setup, config, columns, engines, { choice, onToken }), answers };
}

const withoutCache = ({ blockTokens, ...setup }: Setup): Setup => ({
  ...setup,
  ...{ index: "none", eviction: "lru", allocator: "block", scheduler: "naive", schedulerOptions: {}, rules: {} },
  blockTokens,
  blocks: mostBlocks(blockTokens),
  hostBlocks: 0,
});

function firstDifference(
  cached: readonly Answer[],
  alone: readonly Answer[],
  refused: ArrayLike<number>,
): Trouble | undefined {
  for (const [request, answer] of cached.entries()) {
    const expected = alone[request];
    for (const [at, { token, logits }] of answer.entries()) {
      const other = expected[at];
      const where = `token ${at} of request ${request}`;
      if (logits && other?.logits && !isSame(logits, other.logits))
        return { sort: "logits", message: `the logits behind ${where} are others than without a cache` };
      if (token !== other?.token)
        return { sort: "token", message: `${where} is ${token}, without a cache ${other?.token ?? "not written"}` };
    }
    if (answer.length < expected.length && refused[request] === 0)
      return {
        sort: "length",
        message: `request ${request} writes ${answer.length} tokens, without a cache ${expected.length}`,
      };
  }
  return undefined;
}

const isSame = (a: Float32Array, b: Float32Array) =>
  Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));
