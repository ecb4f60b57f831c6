import { describe, expect, test } from "vitest";
import { roseinfer } from "../../../policies/presets/roseinfer.ts";
import { stepped } from "../../support/stepped.ts";

// Blocks have four tokens. roseinfer's first version computes each prompt when its request is added.

const same = { input: 8, output: 3, prefix: ["p", 8] } as const;

describe("one prompt per step", () => {
  test("offline: prompts one after the other, then decode; a repeated prompt computes nothing", () => {
    const { steps } = stepped({
      scheduler: "offline",
      options: { "prompts-per-step": 1 },
      preset: roseinfer,
      blocks: 20,
      requests: [same, same, { input: 4, output: 2 }],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8",
      "1: B prefill 8–8",
      "2: C prefill 0–4",
      "3: A decode, B decode, C decode",
      "4: A decode, B decode",
    ]);
  });

  test("offline: a request that arrives during prefill joins the batch, a later one does not", () => {
    const { steps } = stepped({
      scheduler: "offline",
      options: { "prompts-per-step": 1 },
      blocks: 20,
      requests: [
        { input: 4, output: 2 },
        { input: 4, output: 2 },
        { arrival: 1, input: 4, output: 1 },
        { arrival: 3, input: 4, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: B prefill 0–4",
      "2: C prefill 0–4",
      "3: A decode, B decode",
      "4: D prefill 0–4",
    ]);
  });

  test("offline: a prompt that does not fit ends the batch", () => {
    const { steps } = stepped({
      scheduler: "offline",
      options: { "prompts-per-step": 1 },
      blocks: 4,
      requests: [
        { input: 7, output: 2 },
        { input: 12, output: 1 },
      ],
    });
    expect(steps).toEqual(["0: A prefill 0–7", "1: A decode", "2: B prefill 0–12"]);
  });

  test("online: new prompts one after the other, before other requests decode", () => {
    const { steps } = stepped({
      scheduler: "online",
      options: { "max-batch-size": 2, "prompts-per-step": 1 },
      blocks: 20,
      requests: [
        { input: 4, output: 2 },
        { input: 4, output: 2 },
        { input: 4, output: 2 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: B prefill 0–4",
      "2: C prefill 0–4",
      "3: A decode, B decode",
      "4: C decode",
    ]);
  });
});
