import type { TraceFormat } from "./format.ts";
import { requestPaths } from "./logged-request.ts";
import { loggedRequests } from "./request-log.ts";
import { textSource } from "./text-source.ts";

/**
 * Prompts as text: vLLM's custom data sets, `{"prompt": text, "output_tokens": tokens}`, and requests and logs of OpenAI's
 * completions API. All fields but the prompt are optional, those of `openai-chat` apply.
 */
export const prompts: TraceFormat = {
  name: "prompts",
  about: "JSON with one prompt as text an object: vLLM's custom data sets, logs of the completions API",
  source: "vLLM (vllm bench serve --dataset-name custom), OpenAI's completions API",
  shape: { kinds: ["json-lines", "json-array", "json-object"], needs: [requestPaths("prompt")] },
  options: ["unitTokens", "timeUnit", "tokenizer"],
  open: (files, options) =>
    textSource("prompts", files, options, (reading) => loggedRequests(reading, "prompt", options.timeUnit)),
};
