import { type MessagePort, workerData } from "node:worker_threads";
import { loadModel } from "../../engine/model/load.ts";
import { type TextRequest, type TextResponse, TextService } from "./text-service.ts";

/** The program of a thread that tokenizes or detokenizes. */

const { port, model } = workerData as { readonly port: MessagePort; readonly model: string };
const loaded = loadModel(model);
const service = new TextService(await loaded.tokenizer());
loaded.close();
const respond = (response: TextResponse) => port.postMessage(response);
port.on("message", (request: TextRequest) => service.handle(request, respond));
respond({ kind: "ready" });
