import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { OnlineEngine, type OnlineRequest, type RequestEnd } from "../../engine/online-engine.ts";
import { evictionRegistry, presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import {
  conversationTrace,
  isolatedOutputs,
  type Outputs,
  type OwnEngine,
  openModel,
  policiesOf,
  RandomClock,
  type Served,
  spoil,
} from "./serving.ts";

const presets = presetRegistry.all.map((preset) => [preset.name, preset] as const);
const maxPositions = 256;
let model: Served;
let trace: Trace;
let longest: Outputs;
beforeAll(async () => {
  model = await openModel("random:tiny", 48, 4);
  const generated = conversationTrace({ seed: 5 });
  trace = { ...generated, outputTokens: generated.maxOutputTokens };
  longest = await isolatedOutputs(model, trace);
});

const promptOf = (row: number) => trace.keys.slice(trace.keyStart[row], trace.keyStart[row + 1]);

/** An online engine, whose requests' tokens and ends are kept. */
function start(own: OwnEngine = {}) {
  const config = policiesOf({ blocks: 48, ...own }, model.executor.blockTokens);
  const engine = new OnlineEngine({
    ...config,
    ...{ executor: model.executor, vocabulary: model.vocabulary, maxPositions, clock: new RandomClock() },
    ...{ audit: true, hostBlocks: 24 },
    ...(own.observers && { observers: own.observers }),
  });
  const tokens = new Map<number, number[]>();
  const ends = new Map<number, RequestEnd[]>();
  const submit = (request: Partial<OnlineRequest> & Pick<OnlineRequest, "prompt">) => {
    const output: number[] = [];
    let ended = (_end: RequestEnd) => {};
    const end = new Promise<RequestEnd>((resolve) => {
      ended = resolve;
    });
    const id = engine.submit({
      ...{ maxTokens: 8, sampling: {}, endTokens: [] },
      ...request,
      onToken(sampled, isLast) {
        output.push(sampled.token);
        request.onToken?.(sampled, isLast);
      },
      onEnd(one) {
        ends.set(one.id, [...(ends.get(one.id) ?? []), one]);
        request.onEnd?.(one);
        ended(one);
      },
    });
    tokens.set(id, output);
    return { id, output, end };
  };
  return { engine, config, submit, tokens, ends };
}

/** No block is referenced after the last request. */
function expectNoLeak(engine: OnlineEngine): void {
  const { replica, cache } = engine.replica;
  expect(engine.activeCount).toBe(0);
  expect(replica.isIdle).toBe(true);
  expect(cache.referencedBlocks).toBe(0);
}

describe("requests that arrive while the engine runs", () => {
  test.each(presets)(
    "%s: outputs are those of requests that run alone, and no block stays referenced",
    async (_, preset) => {
      await spoil(model);
      const { engine, submit } = start({ preset });
      const run = engine.run();
      const all = [];
      for (let row = 0; row < trace.requestCount; row++) {
        const one = submit({ prompt: promptOf(row), maxTokens: trace.maxOutputTokens[row] });
        all.push(one);
        if (row % 5 === 4) await one.end;
      }
      engine.close();
      await run;
      expect(all.map(({ output }) => output)).toEqual(longest.tokens);
      expectNoLeak(engine);
    },
  );

  test("an idle engine waits for the next request", async () => {
    const { engine, submit } = start();
    const run = engine.run();
    for (const prompt of [
      [1, 2, 3],
      [1, 2, 3, 4, 5],
    ]) {
      const { end, output } = submit({ prompt, maxTokens: 3 });
      expect((await end).outputTokens).toBe(3);
      expect(output).toHaveLength(3);
      await new Promise((resolve) => setImmediate(resolve));
    }
    engine.close();
    await run;
  });

  test("an output ends with one of the request's end tokens", async () => {
    const { engine, submit } = start();
    const run = engine.run();
    const first = submit({ prompt: [9, 8, 7], maxTokens: 8 });
    await first.end;
    const end = first.output[2];
    const at = first.output.indexOf(end);
    const second = submit({ prompt: [9, 8, 7], maxTokens: 8, endTokens: [end] });
    await second.end;
    expect(second.output).toEqual(first.output.slice(0, at + 1));
    engine.close();
    await run;
  });

  test("requests of different namespaces share no blocks", async () => {
    const { engine, submit } = start({ preset: presetRegistry.get("vllm") });
    const run = engine.run();
    const prompt = Array.from({ length: 17 }, (_, i) => i);
    const cached = async (namespace: number) => (await submit({ prompt, namespace }).end).cachedTokens;
    expect([await cached(0), await cached(0), await cached(1), await cached(1)]).toEqual([0, 16, 0, 16]);
    engine.close();
    await run;
  });

  test.each([
    ["an empty prompt", { prompt: [] }, /prompt is empty/],
    ["a token outside the vocabulary", { prompt: [1, 512] }, /has token 512, expected one below 512/],
    ["no output tokens", { prompt: [1], maxTokens: 0 }, /maxTokens is 0/],
    ["more tokens than the model's positions", { prompt: [1], maxTokens: 256 }, /exceed the model's 256 positions/],
    ["more tokens than the cache", { prompt: [1], maxTokens: 192 }, /exceed the cache's 192 tokens/],
    ["a temperature below 0", { prompt: [1], sampling: { temperature: -1 } }, /temperature is -1/],
  ])("%s is refused", (_, request, message) => {
    const { submit } = start();
    expect(() => submit(request)).toThrow(message);
  });

  test("a policy that reads the future is refused", () => {
    expect(() => start({ eviction: evictionRegistry.get("belady") })).toThrow(/reads the future/);
  });
});

describe("cancelled requests", () => {
  const schedulers = schedulerRegistry.all.map(({ name }) => name);

  test.each([
    ...presets.map(([name, preset]) => [name, { preset }] as const),
    ...schedulers.map((scheduler) => [scheduler, { scheduler }] as const),
  ])("%s: cancelled at any time, each request ends once and no block stays referenced", async (_, own) => {
    const plan = fc.record({
      row: fc.nat(trace.requestCount - 1),
      /** Output tokens after which it is cancelled; 0: at once. */
      cancelAt: fc.option(fc.nat(4), { freq: 1 }),
      waits: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 12 }), async (plans) => {
        const { engine, submit, tokens, ends } = start({ ...own, blocks: 16 });
        const run = engine.run();
        for (const { row, cancelAt, waits } of plans) {
          let count = 0;
          const one = submit({
            prompt: promptOf(row),
            maxTokens: trace.maxOutputTokens[row],
            onToken() {
              if (++count === cancelAt) engine.cancel(one.id);
            },
          });
          if (cancelAt === 0) engine.cancel(one.id);
          if (waits) await one.end;
        }
        engine.close();
        await run;
        plans.forEach(({ row, cancelAt }, id) => {
          const expected = longest.tokens[row];
          const output = tokens.get(id)!;
          expect(output).toEqual(expected.slice(0, output.length));
          expect(ends.get(id)).toHaveLength(1);
          const [{ refused, outputTokens }] = ends.get(id)!;
          if (refused === undefined) expect(outputTokens).toBe(output.length);
          if (cancelAt === null && refused === undefined) expect(output).toHaveLength(expected.length);
          if (refused === "cancelled") expect(cancelAt).not.toBeNull();
        });
        expectNoLeak(engine);
      }),
      { numRuns: 6 },
    );
  });

  test("cancelling an unknown or ended request has no effect", async () => {
    const { engine, submit, ends } = start();
    const run = engine.run();
    const { id, end } = submit({ prompt: [1, 2] });
    await end;
    engine.cancel(id);
    engine.cancel(99);
    await submit({ prompt: [3, 4] }).end;
    engine.close();
    await run;
    expect([...ends.values()].map(({ length }) => length)).toEqual([1, 1]);
  });
});

describe("a recorded run", () => {
  /** Chats: each prompt repeats an earlier prompt with its output. */
  const chats = fc.array(
    fc.record({
      /** The request that is continued; none of them: a new prompt. */
      continues: fc.nat(15),
      added: fc.array(fc.nat(20), { minLength: 1, maxLength: 9 }),
      maxTokens: fc.integer({ min: 1, max: 9 }),
    }),
    { minLength: 2, maxLength: 10 },
  );

  test.each(presets)(
    "%s: a replay of the requests with their outputs has the same cached tokens",
    async (_, preset) => {
      await fc.assert(
        fc.asyncProperty(chats, async (requests) => {
          const { engine, config, submit } = start({ preset });
          const run = engine.run();
          const builder = new TraceBuilder(1);
          const histories: number[][] = [];
          const cached: number[] = [];
          for (const { continues, added, maxTokens } of requests) {
            const prompt = [...(histories[continues] ?? []), ...added].slice(-120);
            const { output, end } = submit({ prompt, maxTokens });
            cached.push((await end).cachedTokens);
            histories.push([...prompt, ...output]);
            builder.add({
              ...{ arrivalNs: histories.length, inputTokens: prompt.length, keys: prompt },
              ...{ outputTokens: output.length, maxOutputTokens: maxTokens, generatedKeys: output },
            });
          }
          engine.close();
          await run;
          const recorded = builder.take();
          const replay = new CacheReplay({
            ...config,
            scheduler: schedulerRegistry.get("naive"),
            schedulerOptions: {},
          });
          replay.feed(recorded, blockKeysFor(config, 1).of(recorded), 0, recorded.requestCount);
          replay.end();
          expect(cached).toEqual([...replay.result().requests.hitTokens]);
        }),
        { numRuns: 8 },
      );
    },
  );
});
