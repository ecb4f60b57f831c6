import { describe, expect, test } from "vitest";
import { noLoad, type StepLoad } from "../../../core/serving/step-load.ts";
import { Collectives } from "../../../sim/cost/collectives.ts";
import { ExpertGroup } from "../../../sim/cost/expert-group.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { deviceWeightBytes, weightBytesOf } from "../../../sim/cost/model-shape.ts";
import { modelNamed } from "../../../sim/cost/models.ts";
import { Curve } from "../../../sim/cost/profile/curve.ts";
import type { OperatorProfile } from "../../../sim/cost/profile/profile.ts";
import { Profiled } from "../../../sim/cost/profile/profiled.ts";
import { Surface } from "../../../sim/cost/profile/surface.ts";
import { Roofline } from "../../../sim/cost/roofline.ts";

const hardware = hardwareNamed("rtx-pro-6000");

/** A profile whose operators take no time, so that a step takes the time of its collectives. */
const noTimes: OperatorProfile = {
  name: "none",
  dense: new Map(),
  attention: new Surface({ chunk: [0], cached: [0], decodes: [0], context: [0], ns: [0] }),
  skew: 0,
  perSequence: new Map(),
};

const decoding = (sequences: number): StepLoad => ({
  ...noLoad(),
  sequences,
  logits: sequences,
  decodeTokens: sequences,
  decodeContextTokens: 100 * sequences,
  longestDecodeTokens: 100,
});

describe("tensor parallelism", () => {
  const shape = modelNamed("llama-3.1-70b");

  test("a step has an all-reduce after the embedding and two per layer, and an all-gather of the logits", () => {
    const cost = new Profiled({ profile: noTimes, shape, hardware, blockTokens: 16, tensorParallel: 2 });
    // 64 hidden states of 8,192 numbers are 1 MiB, which two devices sum in 27.9 us; each has logits of 64,128 tokens.
    const logits = new Collectives(hardware, 2).allGatherNs(64 * 64_128 * 2);
    expect(cost.stepNs(decoding(64))).toBe(Math.round((2 * 80 + 1) * 27_900 + logits));
    expect(new Profiled({ profile: noTimes, shape, hardware, blockTokens: 16 }).stepNs(decoding(64))).toBe(1);
  });

  test("the roofline has the same collectives, or those of the factors that are set", () => {
    const at = (efficiency = {}) =>
      new Roofline({ shape, hardware, blockTokens: 16, tensorParallel: 2, efficiency }).stepNs(decoding(64));
    const measured = new Collectives(hardware, 2);
    const set = new Collectives(hardware, 2, { share: 0.8, latencyNs: 7000 });
    const timesOf = (group: Collectives) => 161 * group.allReduceNs(2 ** 20) + group.allGatherNs(64 * 64_128 * 2);
    expect(at() - at({ allReduceUs: 7 })).toBeCloseTo(timesOf(measured) - timesOf(set), -1);
  });
});

describe("expert parallelism", () => {
  const shape = modelNamed("qwen3-30b-a3b");
  const layers = 48;
  /** A microsecond per activated expert and layer, for any number of tokens. */
  const profile: OperatorProfile = {
    ...noTimes,
    experts: {
      activated: [8, 128],
      byTokens: [new Curve([1, 2048], [8e3, 8e3]), new Curve([1, 2048], [128e3, 128e3])],
    },
  };
  const groupOf = (tensorParallel: number, dataParallel: number, gpu = hardware) => {
    const expertDevices = tensorParallel * dataParallel;
    const cost = new Profiled({ profile, shape, hardware: gpu, blockTokens: 16, tensorParallel, expertDevices });
    return { cost, group: new ExpertGroup({ cost, shape, hardware: gpu, tensorParallel, dataParallel }) };
  };
  const touched = (tokens: number) => 128 * (1 - (1 - 8 / 128) ** tokens);

  test("two replicas: each device computes half of the experts for the tokens of both, between two collectives", () => {
    const { group } = groupOf(1, 2);
    const two = new Collectives(hardware, 2);
    // A hidden state has 2,048 numbers, a token 8 routes of 8 bytes.
    const exchange = (tokens: number) => two.allGatherNs(tokens * (4096 + 64)) + two.reduceScatterNs(tokens * 4096);
    const equal = layers * ((touched(24) / 2) * 1e3 + exchange(12));
    expect(group.togetherNs([decoding(12), decoding(12)])).toBe(Math.round(equal));
    // The replica with more tokens determines the size of the messages.
    expect(group.togetherNs([decoding(4), decoding(12)])).toBe(
      Math.round(layers * ((touched(16) / 2) * 1e3 + exchange(12))),
    );
    // An idle replica computes one token.
    expect(group.stepNs(decoding(12))).toBe(Math.round(layers * ((touched(13) / 2) * 1e3 + exchange(12))));
  });

  test("without data parallelism the experts are divided, and there is no further collective", () => {
    const collectives = new Collectives(hardware, 2);
    const { cost } = groupOf(2, 1);
    const logits = collectives.allGatherNs(64 * (151_936 / 2) * 2);
    const summed = (2 * layers + 1) * collectives.allReduceNs(64 * 4096);
    expect(cost.stepNs(decoding(64))).toBe(Math.round(layers * (touched(64) / 2) * 1e3 + summed + logits));
  });

  test("with both, tokens are divided among the devices of a replica and gathered there, instead of one all-reduce", () => {
    const { group } = groupOf(2, 2);
    const [four, two] = [4, 2].map((devices) => new Collectives(hardware, devices));
    expect(group.exchangeNs(64)).toBeCloseTo(
      four.allGatherNs(32 * 4160) +
        four.reduceScatterNs(32 * 4096) +
        two.allGatherNs(32 * 4096) -
        two.allReduceNs(64 * 4096),
      6,
    );
  });

  test("an all-to-all sends a token to the devices that have one of its experts", () => {
    const { cost } = groupOf(1, 4);
    const system = { cost, shape, hardware, tensorParallel: 1, dataParallel: 4 };
    const exchangeOf = (exchange: "gather" | "all-to-all") => new ExpertGroup({ ...system, exchange }).exchangeNs(1000);
    const four = new Collectives(hardware, 4);
    const sent = 1 - (3 / 4) ** 8;
    expect(exchangeOf("all-to-all")).toBeCloseTo(
      four.allToAllNs(sent * 1000 * 4160) + four.allToAllNs(sent * 1000 * 4096),
      6,
    );
    expect(exchangeOf("all-to-all")).toBeLessThan(exchangeOf("gather"));
  });

  test("one replica on one device is the cost model itself", () => {
    const { cost, group } = groupOf(1, 1);
    for (const sequences of [1, 7, 300, 2000])
      expect(group.stepNs(decoding(sequences))).toBe(cost.stepNs(decoding(sequences)));
  });

  test("the roofline reads half of the activated experts on each of two devices", () => {
    const expertsNs = (dataParallel: number) =>
      new Roofline({ shape, hardware, blockTokens: 16, dataParallel, efficiency: { expertsUs: 0 } }).expertsNs(1);
    expect(expertsNs(2)).toBeCloseTo(expertsNs(1) / 2, 6);
  });

  test("a joint step is never faster with more tokens on one of the replicas", () => {
    for (const make of [
      () => groupOf(1, 2).group,
      () => groupOf(1, 4, hardwareNamed("h200")).group,
      () => {
        const system = { shape, hardware, blockTokens: 16, tensorParallel: 1, dataParallel: 2 };
        return new ExpertGroup({ ...system, cost: new Roofline(system) });
      },
    ]) {
      const group = make();
      let least = 0;
      for (const sequences of [1, 2, 5, 16, 17, 100, 512]) {
        const ns = group.togetherNs([decoding(16), decoding(sequences)]);
        expect(ns).toBeGreaterThanOrEqual(least);
        least = ns;
      }
    }
  });

  test("each device has its share of the routed experts and its replica's share of all other weights", () => {
    const routed = 128 * 48 * shape.parameters.expert * 2;
    const others = weightBytesOf(shape) - routed;
    expect(deviceWeightBytes(shape, 1, 2)).toBe(others + routed / 2);
    expect(deviceWeightBytes(shape, 2, 4)).toBe(others / 2 + routed / 8);
    expect(deviceWeightBytes(modelNamed("llama-3.1-8b"), 1, 2)).toBe(2 * 8_030_261_248);
  });
});
