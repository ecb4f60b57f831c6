import { describe, expect, test } from "vitest";
import { cacheBytes } from "../../../sim/cost/capacity.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { modelNamed } from "../../../sim/cost/models.ts";

const bytesFor = (model: string, gpu: string, tensorParallel = 1, memoryShare = 0.9) =>
  cacheBytes({ shape: modelNamed(model), hardware: hardwareNamed(gpu), tensorParallel, memoryShare });

describe("the memory that a device has left for KV", () => {
  test("is its share of memory less weights, activations and the runtime", () => {
    // RTX PRO 6000: 97,887 MiB; Llama-3.1-8B in bfloat16; 8,192 tokens of 2 · (2 · 4096 + 3 · 14,336) bytes; 1 GiB.
    const left = 97_887 * 2 ** 20 * 0.9 - 2 * 8_030_261_248 - 8192 * 102_400 - 2 ** 30;
    expect(bytesFor("llama-3.1-8b", "rtx-pro-6000")).toBe(Math.floor(left));
    // vLLM reports about the same: 69 GiB, half a million tokens.
    expect(left / 131_072).toBeGreaterThan(500_000);
  });

  test("grows with the share of memory and with devices", () => {
    expect(bytesFor("llama-3.1-8b", "h200", 1, 0.95)).toBeGreaterThan(bytesFor("llama-3.1-8b", "h200"));
    expect(bytesFor("llama-3.1-70b", "h200", 4)).toBeGreaterThan(bytesFor("llama-3.1-70b", "h200", 2));
  });

  test("a model that does not fit is an error with the missing bytes and a number of devices that is enough", () => {
    expect(() => bytesFor("llama-3.1-70b", "h100")).toThrow(
      /^llama-3.1-70b does not fit: its weights are 131\.4 GiB per device; with activations and runtime they exceed 0\.9 of the 79\.6 GiB of h100 by 62\.\d GiB; --tp 2 is enough$/,
    );
    expect(() => bytesFor("llama-3.1-405b", "rtx-4090", 2)).toThrow(/--tp 64 is enough$/);
    expect(() => bytesFor("llama-3.1-8b", "h200", 1, 0.1)).toThrow(/does not fit: .*; --tp 2 is enough$/);
  });
});
