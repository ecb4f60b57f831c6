import type { MessagePort } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import type { BatchResult, BlockData } from "../executor.ts";
import type { ExecutorRequest, LoadRequest, WorkerDecoder, WorkerResponse } from "./protocol.ts";

/**
 * Executes the calls that arrive at `port`, in a worker thread.
 *
 * @param load executes the backend's own calls; returns the decoder when it is loaded
 */
export function serve<Load extends LoadRequest>(
  port: MessagePort,
  load: (request: Load) => Promise<WorkerDecoder | undefined>,
): void {
  let decoder: WorkerDecoder | undefined;
  port.on("message", async (request: Load | ExecutorRequest) => {
    try {
      let value: BatchResult | BlockData[] | undefined;
      if (isLoad(request)) decoder = await load(request);
      // The first error of loading is reported; closing afterwards has no effect.
      else if (request.kind !== "close" || decoder) value = await execute(decoder, request);
      port.postMessage({ value } satisfies WorkerResponse, buffersOf(value));
    } catch (error) {
      const { name, message } = error as Error;
      port.postMessage({ error: { name, message } } satisfies WorkerResponse);
    }
  });
}

const isLoad = <Load extends LoadRequest>(request: Load | ExecutorRequest): request is Load =>
  request.kind === "load" || request.kind === "weights";

async function execute(
  decoder: WorkerDecoder | undefined,
  request: ExecutorRequest,
): Promise<BatchResult | BlockData[] | undefined> {
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

/** Buffers that are transferred, not copied. */
function buffersOf(value: BatchResult | BlockData[] | undefined): ArrayBuffer[] {
  const arrays =
    value === undefined ? [] : "logits" in value ? [value.logits] : value.flatMap(({ keys, values }) => [keys, values]);
  return arrays.map(({ buffer }) => buffer as ArrayBuffer);
}
