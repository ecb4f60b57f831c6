import { beforeAll, expect, test } from "vitest";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { Engine } from "../../engine/engine.ts";
import type { EngineConfig } from "../../engine/engine-loop.ts";
import type { BatchResult, BatchStep, DeviceSampling } from "../../engine/executor.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { conversationTrace, ForwardingExecutor, openModel, policiesOf, RandomClock, type Served } from "./serving.ts";

let model: Served;
beforeAll(async () => {
  model = await openModel("random:tiny", 48, 4);
});

/** Counts the steps whose tokens the executor samples. */
class Counting extends ForwardingExecutor {
  sampledSteps = 0;

  canSample(sampling: DeviceSampling): boolean {
    return this.to.canSample?.(sampling) ?? false;
  }

  override executeStep(step: BatchStep): Promise<BatchResult> {
    if (step.sampling) this.sampledSteps++;
    return super.executeStep(step);
  }
}

/** Output tokens of each request, up to `maxOutputTokens`. */
async function outputs(own: Pick<EngineConfig, "onToken"> & { readonly temperature?: number }) {
  const trace = conversationTrace({ seed: 3 });
  const config = policiesOf({ preset: presetRegistry.get("vllm"), blocks: 40 }, 4);
  const executor = new Counting(model.executor);
  const tokens: number[][] = Array.from({ length: trace.requestCount }, () => []);
  const { onToken: written, temperature = 0 } = own;
  const engine = new Engine(trace, blockKeysFor(config, trace.unitTokens).of(trace), {
    ...config,
    executor,
    clock: new RandomClock(),
    vocabulary: model.vocabulary,
    ...(written && { onToken: written }),
    choice: {
      sampling: { temperature },
      endTokens: [],
      isStop({ id }, { token }) {
        tokens[id].push(token);
        return false;
      },
    },
  });
  await engine.run();
  return { tokens, sampledSteps: executor.sampledSteps };
}

test("tokens that the executor samples are those that the host samples from its logits", async () => {
  const device = await outputs({});
  const host = await outputs({ onToken: () => {} });
  expect(device.sampledSteps).toBeGreaterThan(0);
  expect(host.sampledSteps).toBe(0);
  expect(device.tokens).toEqual(host.tokens);
});

test("sampling that the executor does not support is done from its logits", async () => {
  expect((await outputs({ temperature: 1 })).sampledSteps).toBe(0);
});
