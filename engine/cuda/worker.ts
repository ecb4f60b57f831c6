import { type MessagePort, workerData } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import { serve } from "../worker/serve.ts";
import { PagedDecoder, type PagedDecoderOptions, type RandomElements } from "./paged-decoder.ts";

/** Calls that load a model: memory is allocated, tensors are written, and the last call ends loading. */
export type CudaLoad =
  | { readonly kind: "load"; readonly isComplete: boolean }
  | { readonly kind: "weights"; readonly offset: number; readonly elements: Uint16Array }
  | { readonly kind: "weights"; readonly offset: number; readonly random: RandomElements };

const { port, source: _, ...options } = workerData as PagedDecoderOptions & { port: MessagePort; source?: string };
let decoder: PagedDecoder | undefined;

serve(port, async (request: CudaLoad) => {
  if (request.kind === "load" && !request.isComplete) decoder = PagedDecoder.open(options);
  assert(decoder !== undefined, "weights are written after memory is allocated");
  if (request.kind === "load") {
    if (request.isComplete) decoder.loaded();
  } else if ("random" in request) decoder.generateWeights(request.offset, request.random);
  else decoder.writeWeights(request.offset, request.elements);
  return decoder;
});
