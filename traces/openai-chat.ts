import type { TraceFormat } from "./format.ts";
import { requestPaths } from "./logged-request.ts";
import { loggedRequests } from "./request-log.ts";
import { textSource } from "./text-source.ts";

/**
 * Logs of OpenAI-compatible servers and files of requests for them: each object is a request with `messages`, at the top
 * level or in `body` (batch files), `request`, `request.body` or `input`. docs/trace-format.md lists the other fields.
 */
export const openaiChat: TraceFormat = {
  name: "openai-chat",
  about: "JSON with OpenAI's messages: request bodies, batch files, logs with responses and times",
  source: "OpenAI's chat completions API, as in the logs of vLLM, SGLang and gateways",
  shape: { kinds: ["json-lines", "json-array", "json-object"], needs: [requestPaths("messages")] },
  options: ["unitTokens", "timeUnit", "tokenizer"],
  open: (files, options) =>
    textSource("openai-chat", files, options, (reading) => loggedRequests(reading, "messages", options.timeUnit)),
};
