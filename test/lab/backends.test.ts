import { describe, expect, test } from "vitest";
import type { EngineBackend } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { UnavailableError } from "../../engine/executor.ts";
import { engineFindings } from "../../lab/doctor/doctor-engine.ts";
import { modelFindings } from "../../lab/doctor/doctor-model.ts";
import { modelOptionsOf } from "../../lab/run/real-engine.ts";
import { deviceText } from "../../lab/run/target.ts";

/** A backend with 16-bit weights and without threads, on a device with 1 MiB of memory. */
const accelerator: EngineBackend = {
  ...defaultBackend,
  ...{ name: "accelerator", reportName: "accelerator", device: "the accelerator", weightBits: [16], hasThreads: false },
  memory: {
    ...defaultBackend.memory,
    weightBytes: (config) => defaultBackend.memory.weightBytes(config, 32) / 2,
    tokenBytes: (config) => defaultBackend.memory.tokenBytes(config) / 2,
    availableBytes: () => 2 ** 20,
  },
  runtime: { name: "Driver", missing: { driver: null }, load: async () => ({ found: "9", report: { driver: 9 } }) },
};

const missing: EngineBackend = {
  ...accelerator,
  runtime: {
    ...accelerator.runtime,
    async load() {
      throw new UnavailableError("no driver: libdriver.so not found");
    },
  },
  async selfCheck() {
    throw new Error("is not called");
  },
};

describe("options of a model", () => {
  test("have the backend's defaults", () => {
    expect(modelOptionsOf(defaultBackend, { threads: 3 })).toEqual({ bits: 32, threads: 3 });
    expect(modelOptionsOf(accelerator, {})).toEqual({ bits: 16, threads: undefined });
  });

  test("that the backend does not support are refused by name", () => {
    expect(() => modelOptionsOf(accelerator, { bits: 8 })).toThrow(
      "--bits is 8, expected 16 with --target accelerator",
    );
    expect(() => modelOptionsOf(accelerator, { threads: 1 })).toThrow(
      "--threads is not an option of --target accelerator: the model's operators run on the accelerator",
    );
    expect(() => modelOptionsOf(defaultBackend, { bits: 16 })).toThrow(
      `--bits is 16, expected 32, 8 or 4 with --target ${defaultBackend.name}`,
    );
  });

  test("are shown with the device", () => {
    expect(deviceText(defaultBackend, 1)).toBe("the CPU, 1 thread");
    expect(deviceText(accelerator, null)).toBe("the accelerator");
  });
});

describe("kvlab doctor", () => {
  test("passes without an optional device, and does not run its model", async () => {
    const { findings, available, report } = await engineFindings(undefined, [defaultBackend, missing]);
    expect(findings.filter(({ ok }) => !ok)).toEqual([
      { what: "Driver", ok: false, optional: true, found: "not available: no driver: libdriver.so not found" },
    ]);
    expect(findings.map(({ what }) => what)).not.toContain("engine, accelerator");
    expect({ available, driver: report["driver"] }).toEqual({ available: [defaultBackend], driver: null });
  });

  test("runs a model on each device that the machine has", async () => {
    const { findings, report } = await engineFindings(undefined, [defaultBackend, accelerator]);
    expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    expect(findings.map(({ what }) => what)).toEqual(expect.arrayContaining(["engine", "engine, accelerator"]));
    expect(report["driver"]).toBe(9);
  });

  test("shows the memory of a model on each backend; one that it fits is enough", async () => {
    const { findings, report } = await modelFindings(
      { model: "random:tiny", bits: 8, blockSize: 16, blocks: 100 },
      [defaultBackend, accelerator],
      2 ** 30,
    );
    expect(report).toMatchObject({ bits: 8, poolBytes: 819_200, fits: true, weightBytes: { 8: 252_160 } });
    expect(report?.otherBackends).toEqual([
      {
        ...{ name: "accelerator", availableBytes: 2 ** 20, bits: 16, weightBytes: { 16: 279_168 } },
        ...{ kvBytesPerToken: 256, tokensThatFit: { 16: 3005 }, poolBytes: 409_600, fits: true },
      },
    ]);
    expect(findings.at(-1)).toEqual({
      ...{ what: "fit, accelerator", ok: true },
      found: "1,600 tokens (400.0 KiB) beside 16-bit weights (272.6 KiB) in 1.0 MiB, 3,005 would fit",
    });
    const large = await modelFindings(
      { model: "random:tiny", blockSize: 16, blocks: 1000 },
      [defaultBackend, accelerator],
      2 ** 30,
    );
    expect(large.findings.filter(({ ok }) => !ok)).toMatchObject([{ what: "fit, accelerator", optional: true }]);
    const check = { model: "random:tiny", blockSize: 16, blocks: 100 };
    const onlyOther = await modelFindings(check, [defaultBackend, accelerator], 1000);
    expect(onlyOther.findings.filter(({ ok }) => !ok)).toMatchObject([{ what: "fit", optional: true }]);
    const none = await modelFindings({ ...check, blocks: 10_000 }, [defaultBackend, accelerator], 1000);
    expect(none.findings.filter(({ ok, optional }) => !ok && !optional)).toMatchObject([{ what: "fit" }]);
  });
});
