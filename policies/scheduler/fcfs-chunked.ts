import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, type Precedence } from "./continuous.ts";
import { lastAdmitted } from "./out-of-blocks.ts";

/** First come, first served; preempted requests precede new ones. The request admitted last is preempted. */
const inOrder: Precedence = {
  first: (context) => context.firstWaiting,
  victimOf: lastAdmitted,
};

export const fcfsChunked: SchedulerPlugin = {
  name: "fcfs-chunked",
  about: "continuous batching in order of arrival, chunked prefill, one token budget for prefill and decode",
  source: "vLLM (v1), Sarathi-Serve (Agrawal et al., OSDI 2024)",
  options: continuousOptions,
  isPipelined: true,
  create: ({ rules, options }) => new ContinuousBatching(inOrder, rules, options),
};
