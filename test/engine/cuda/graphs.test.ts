import { describe, expect, test } from "vitest";
import { paddedDecodes } from "../../../engine/cuda/graphs.ts";
import { sizeOf } from "../../../engine/cuda/step-inputs.ts";
import {
  blockTokens,
  canEmulate,
  greedy,
  type Opened,
  opened,
  type Part,
  run,
  stepOf,
  tinyConfig,
  useEmulator,
} from "./decoders.ts";

useEmulator();

const config = tinyConfig("llama");

/** The prompts of `lengths`, each in blocks of its own, and then `steps` decodes of all of them. */
function decodes(model: Opened, lengths: readonly number[], steps: number) {
  const sequences = lengths.map((length, i) => ({
    tokens: Array.from({ length: length + steps }, (_, at) => (at * 13 + 7 * i) % config.vocabulary),
    table: Array.from({ length: Math.ceil((length + steps) / blockTokens) }, (_, block) => 12 * i + block),
  }));
  const partsOf = (from: (i: number) => number, to: (i: number) => number): Part[] =>
    sequences.map(({ tokens, table }, i) => ({
      tokens,
      table: table.slice(0, Math.ceil(to(i) / blockTokens)),
      from: from(i),
      to: to(i),
    }));
  run(
    model,
    partsOf(
      () => 0,
      (i) => lengths[i],
    ),
  );
  return Array.from({ length: steps }, (_, step) =>
    run(
      model,
      partsOf(
        (i) => lengths[i] + step,
        (i) => lengths[i] + step + 1,
      ),
    ),
  );
}

describe.runIf(canEmulate)("graphs of decode steps", () => {
  test.each([1, 3, 9])("%i sequences: the logits are those of single launches, bit for bit", (count) => {
    const lengths = Array.from({ length: count }, (_, i) => 3 + 4 * i);
    const [withGraphs, without] = [
      opened(config, { blockCount: 120 }),
      opened(config, { blockCount: 120, graphs: false }),
    ];
    expect(decodes(withGraphs, lengths, 5)).toEqual(decodes(without, lengths, 5));
    expect(withGraphs.decoder.graphCount).toBeGreaterThan(0);
    expect(without.decoder.graphCount).toBe(0);
  });

  test("a graph is launched again with other inputs, and captured again after buffers have grown", () => {
    const model = opened(config, { blockCount: 300 });
    const alone = opened(config, { blockCount: 300, graphs: false });
    const part = (token: number, table: readonly number[]): Part => ({
      tokens: [token, token + 1],
      from: 1,
      to: 2,
      table,
    });
    const fill = (of: Opened) => {
      for (const [token, block] of [
        [5, 0],
        [9, 1],
        [30, 2],
      ])
        run(of, [{ tokens: [token], from: 0, to: 1, table: [block] }]);
    };
    fill(model);
    fill(alone);
    const steps = [
      [part(5, [0]), part(9, [1])],
      [part(30, [2]), part(5, [0])],
      [part(9, [1]), part(30, [2])],
    ];
    for (const parts of steps) expect(run(model, parts)).toEqual(run(alone, parts));
    const captured = model.decoder.graphCount;
    expect(captured).toBeGreaterThan(0);
    run(model, [
      { tokens: Array(900).fill(3), from: 0, to: 900, table: Array.from({ length: 225 }, (_, i) => 10 + i) },
    ]);
    expect(model.decoder.graphCount).toBe(0);
    for (const parts of [...steps, ...steps]) expect(run(model, parts)).toEqual(run(alone, parts));
    expect(model.decoder.graphCount).toBe(1);
  });

  test("tokens that are sampled in a graph are those of single launches", () => {
    const [model, without] = [opened(config), opened(config, { graphs: false })];
    const tokensOf = ({ decoder }: Opened) =>
      Array.from({ length: 4 }, (_, i) => {
        const step = stepOf([
          { tokens: [1, 2, 3, 4, 5, 6, 7], from: 0, to: 3, table: [0] },
          { tokens: [8, 9], from: 0, to: 2, table: [5] },
        ]);
        decoder.executeStep(step);
        const next = stepOf([
          { tokens: [1, 2, 3, 4], from: 3, to: 4, table: [0] },
          { tokens: [8, 9, 10], from: 2, to: 3, table: [5] },
        ]);
        const sampling = [{ ...greedy, temperature: 0.8, seed: -3, position: i }, greedy];
        return [...decoder.executeStep({ ...next, sampling }).tokens!];
      });
    expect(tokensOf(model)).toEqual(tokensOf(without));
    expect(model.decoder.graphCount).toBe(1);
  });
});

test("steps of decodes are padded to few sizes; others are not", () => {
  const decode = (count: number, contextTokens = 10) =>
    sizeOf(
      stepOf(
        Array.from({ length: count }, () => ({
          tokens: Array(contextTokens).fill(1),
          ...{
            from: contextTokens - 1,
            to: contextTokens,
            table: Array(Math.ceil(contextTokens / blockTokens)).fill(0),
          },
        })),
      ),
    );
  const padded = (count: number) => paddedDecodes(decode(count))?.sequences;
  expect([1, 3, 8, 9, 64, 65, 257, 512, 513].map(padded)).toEqual([1, 4, 8, 16, 64, 80, 288, 512, undefined]);
  expect(paddedDecodes(decode(3, 70))).toMatchObject({ tokens: 4, logits: 4, decodes: 4, tableStride: 32 });
  expect(paddedDecodes(sizeOf(stepOf([{ tokens: [1, 2], from: 0, to: 2, table: [0] }])))).toBeUndefined();
  const withoutLogits = stepOf([{ tokens: [1, 2], from: 1, to: 2, table: [0], withoutLogits: true }]);
  expect(paddedDecodes(sizeOf(withoutLogits))).toBeUndefined();
});
