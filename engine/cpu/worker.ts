import { type MessagePort, workerData } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import type { BatchResult, BatchStep, BlockData } from "../executor.ts";
import { PagedDecoder, type PagedDecoderOptions } from "./paged-decoder.ts";

/** A call of the worker, one at a time; the first is `load`. */
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

async function handle(request: WorkerRequest): Promise<BatchResult | BlockData[] | undefined> {
  if (request.kind === "load") {
    decoder = await PagedDecoder.load(options);
    return undefined;
  }
  assert(decoder !== undefined, "no model has been loaded");
  switch (request.kind) {
    case "step":
      return decoder.executeStep(request.step);
    case "copy":
      decoder.copyBlocks(request.pairs);
      return undefined;
    case "read":
      return decoder.readBlocks(request.blocks);
    case "write":
      decoder.writeBlocks(request.blocks, request.data);
      return undefined;
    case "close":
      await decoder.close();
      return undefined;
  }
}

port.on("message", async (request: WorkerRequest) => {
  try {
    const value = await handle(request);
    const transferred =
      value === undefined
        ? []
        : "logits" in value
          ? [value.logits]
          : value.flatMap(({ keys, values }) => [keys, values]);
    port.postMessage(
      { value } satisfies WorkerResponse,
      transferred.map(({ buffer }) => buffer as ArrayBuffer),
    );
  } catch (error) {
    const { name, message } = error as Error;
    port.postMessage({ error: { name, message } } satisfies WorkerResponse);
  }
});
