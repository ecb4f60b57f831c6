import { type MessagePort, workerData } from "node:worker_threads";
import { serve } from "../worker/serve.ts";
import { PagedDecoder, type PagedDecoderOptions } from "./paged-decoder.ts";

const { port, source: _, ...options } = workerData as PagedDecoderOptions & { port: MessagePort; source?: string };

serve(port, () => PagedDecoder.load(options));
