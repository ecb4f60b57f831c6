import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, type Precedence } from "./continuous.ts";
import { lastAdmitted } from "./room.ts";

/** First come, first served; who was sent back is first. Whoever was admitted last makes room. */
const inOrder: Precedence = {
  first: (context) => context.firstWaiting,
  victimOf: lastAdmitted,
};

export const fcfsChunked: SchedulerPlugin = {
  name: "fcfs-chunked",
  about: "continuous batching in order of arrival, prompts in chunks, one token budget for prompts and answers",
  source: "vLLM (v1), Sarathi-Serve (Agrawal et al., OSDI 2024)",
  options: continuousOptions,
  create: ({ rules, options }) => new ContinuousBatching(inOrder, rules, options),
};
