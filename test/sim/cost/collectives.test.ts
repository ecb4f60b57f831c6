import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Collectives } from "../../../sim/cost/collectives.ts";
import { hardwareNamed, hardwareNames } from "../../../sim/cost/hardware.ts";
import { linkTimes } from "../../../sim/cost/links.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const among = (gpu: string, devices: number) => new Collectives(hardwareNamed(gpu), devices);

describe("worked by hand", () => {
  test("two RTX PRO 6000 reduce up to 8 MiB by reading each other's memory, larger tensors with NCCL", () => {
    const two = among("rtx-pro-6000", 2);
    expect(two.allReduceNs(64 * KiB)).toBe(7_700);
    // Halfway between 512 KiB and 1 MiB.
    expect(two.allReduceNs(768 * KiB)).toBe((17_000 + 27_900) / 2);
    expect(two.allReduceNs(8 * MiB)).toBe(178_800);
    // Each device sends 16 MiB in two halves, as much as in an all-gather of 16 MiB from each.
    expect(two.allReduceNs(16 * MiB)).toBe(492_250);
    expect(two.allGatherNs(16 * MiB)).toBe(492_250);
    expect(two.reduceScatterNs(128 * KiB)).toBe(16_670);
    expect(two.pointToPointNs(MiB)).toBe(46_570);
  });

  test("over PCIe, more than two devices use NCCL for every size", () => {
    expect(among("rtx-pro-6000", 4).allReduceNs(32 * KiB)).toBeCloseTo(17_600, 6);
    expect(among("rtx-pro-6000", 8).allReduceNs(MiB)).toBeCloseTo(129_700, 6);
  });

  test("an all-gather takes as long as an all-reduce in which every device sends as many bytes", () => {
    const four = among("rtx-pro-6000", 4);
    // 3 contributions of 64 KiB = 2 · 3/4 of 128 KiB.
    expect(four.allGatherNs(64 * KiB)).toBeCloseTo(28_300, 6);
    expect(four.allToAllNs(64 * KiB)).toBeCloseTo(28_300, 6);
  });

  test("four H100 use one-shot below 512 KiB, two-shot up to 32 MiB, then NCCL", () => {
    const four = among("h100", 4);
    expect(four.allReduceNs(KiB)).toBe(6_000);
    expect(four.allReduceNs(512 * KiB)).toBe(17_000);
    expect(four.allReduceNs(32 * MiB)).toBe(157_000);
    expect(four.allReduceNs(2048 * MiB)).toBeCloseTo(8_765_000, 3);
  });

  test("a message on PCIe 4 takes as long as one of twice the size on PCIe 5", () => {
    expect(among("l40s", 2).allReduceNs(MiB)).toBe(among("rtx-pro-6000", 2).allReduceNs(2 * MiB));
  });

  test("devices whose links were not measured have a latency and a bandwidth", () => {
    const { linkBytesPerS } = hardwareNamed("mi300x");
    expect(among("mi300x", 8).allReduceNs(8e6)).toBeCloseTo(10_000 + 14e6 / ((linkBytesPerS * 0.8) / 1e9), 3);
    const rates = { share: 0.5, latencyNs: 3000 };
    expect(new Collectives(hardwareNamed("h100"), 2, rates).allReduceNs(450e3)).toBeCloseTo(5000, 6);
  });
});

describe("the table", () => {
  test("times rise with the size of the message, and every row has a source", () => {
    for (const { peer, nccl } of Object.values(linkTimes))
      for (const { points, source } of [...peer, ...nccl]) {
        expect(source).not.toBe("");
        points.slice(1).forEach(([bytes, us], i) => {
          expect(bytes).toBeGreaterThan(points[i][0]);
          expect(us).toBeGreaterThanOrEqual(points[i][1]);
        });
      }
  });
});

describe("laws", () => {
  const anyGroup = fc.record({
    gpu: fc.constantFrom(...hardwareNames),
    devices: fc.integer({ min: 1, max: 16 }),
    bytes: fc.integer({ min: 1, max: 2 ** 31 }),
    more: fc.nat(2 ** 28),
  });
  const operations = ["allReduceNs", "allGatherNs", "reduceScatterNs", "allToAllNs", "pointToPointNs"] as const;

  test("a larger message is never faster", () => {
    fc.assert(
      fc.property(anyGroup, fc.constantFrom(...operations), ({ gpu, devices, bytes, more }, operation) => {
        const group = among(gpu, devices);
        expect(group[operation](bytes + more)).toBeGreaterThanOrEqual(group[operation](bytes));
      }),
    );
  });

  test("no message takes less time than its bytes need at the bandwidth of the links", () => {
    fc.assert(
      fc.property(anyGroup, ({ gpu, devices, bytes }) => {
        const perNs = hardwareNamed(gpu).linkBytesPerS / 1e9;
        const group = among(gpu, devices);
        expect(group.allGatherNs(bytes)).toBeGreaterThanOrEqual(((devices - 1) * bytes) / perNs);
        expect(group.pointToPointNs(bytes)).toBeGreaterThanOrEqual(bytes / perNs);
      }),
    );
  });

  test("one device exchanges nothing", () => {
    const alone = among("h100", 1);
    expect([alone.allReduceNs(MiB), alone.allGatherNs(MiB), alone.allToAllNs(MiB)]).toEqual([0, 0, 0]);
  });
});
