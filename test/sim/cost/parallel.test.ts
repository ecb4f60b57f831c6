import { describe, expect, test } from "vitest";
import { noLoad, type StepLoad } from "../../../core/serving/step-load.ts";
import { Collectives } from "../../../sim/cost/collectives.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { modelNamed } from "../../../sim/cost/models.ts";
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
