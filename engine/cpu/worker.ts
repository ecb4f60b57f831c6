import { type MessagePort, workerData } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import type { BatchResult, BatchStep, BlockData } from "../executor.ts";
import { PagedDecoder, type PagedDecoderOptions } from "./paged-decoder.ts";

/** What the worker is asked for, one at a time; `load` comes first. */
export type WorkerRequest =
  | { readonly kind: "load" }
  | { readonly kind: "step"; readonly step: BatchStep }
  | { readonly kind: "copy"; readonly pairs: readonly { readonly source: number; readonly target: number }[] }
  | { readonly kind: "read"; readonly blocks: readonly number[] }
  | { readonly kind: "write"; readonly blocks: readonly number[]; readonly data: readonly BlockData[] }
  | { readonly kind: "close" };

export type WorkerResponse =
  | { readonly value: BatchResult | BlockData[] | undefined }
  | { readonly error: { readonly name: string; readonly message: string } };

const { port, source: _, ...options } = workerData as PagedDecoderOptions & { port: MessagePort; source?: string };
let decoder: PagedDecoder | undefined;

async function answer(ask: WorkerRequest): Promise<BatchResult | BlockData[] | undefined> {
  if (ask.kind === "load") {
    decoder = await PagedDecoder.load(options);
    return undefined;
  }
  assert(decoder !== undefined, "nothing has been loaded");
  switch (ask.kind) {
    case "step":
      return decoder.executeStep(ask.step);
    case "copy":
      decoder.copyBlocks(ask.pairs);
      return undefined;
    case "read":
      return decoder.readBlocks(ask.blocks);
    case "write":
      decoder.writeBlocks(ask.blocks, ask.data);
      return undefined;
    case "close":
      await decoder.close();
      return undefined;
  }
}

port.on("message", async (ask: WorkerRequest) => {
  try {
    const value = await answer(ask);
    const moved =
      value === undefined
        ? []
        : "logits" in value
          ? [value.logits]
          : value.flatMap(({ keys, values }) => [keys, values]);
    port.postMessage(
      { value } satisfies WorkerResponse,
      moved.map(({ buffer }) => buffer as ArrayBuffer),
    );
  } catch (error) {
    const { name, message } = error as Error;
    port.postMessage({ error: { name, message } } satisfies WorkerResponse);
  }
});
