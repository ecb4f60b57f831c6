import { afterAll, describe, expect, test } from "vitest";
import { cudaBackend } from "../../../engine/cuda/backend.ts";
import { caching } from "../../../lab/fuzz/caching.ts";
import { Engines } from "../../../lab/fuzz/engines.ts";
import { search } from "../../../lab/fuzz/search.ts";
import type { FuzzParts } from "../../../lab/fuzz/setup.ts";
import { simEngine } from "../../../lab/fuzz/sim-engine.ts";
import { presetRegistry } from "../../../policies/registry.ts";
import { allPlugins } from "../../laws/all-plugins.ts";
import { canEmulate, useEmulator } from "./decoders.ts";

useEmulator();

const engines = new Engines(undefined, cudaBackend);
afterAll(() => engines.close());

const parts: FuzzParts = { ...allPlugins, presets: presetRegistry.all };

describe.runIf(canEmulate)("random cases on the emulated device", () => {
  test("simulator and engine make the same decisions, with the contents of a run without a cache", async () => {
    const { cases, finding } = await search(simEngine(engines), parts, { cases: 12, seed: 3 });
    expect(finding).toBeUndefined();
    expect(cases).toBeGreaterThan(8);
  });

  test("outputs are those of a run without a cache", async () => {
    const { cases, finding } = await search(caching(engines), parts, { cases: 12, seed: 4 });
    expect(finding).toBeUndefined();
    expect(cases).toBeGreaterThan(8);
  });
});
