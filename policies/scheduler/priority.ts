import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, firstWaitingBy, type IsBefore, lastRunningBy } from "./continuous.ts";

/** The more important request first, of equals the one that arrived first. */
const isBefore: IsBefore = ({ request: a }, { request: b }) =>
  a.priority !== b.priority ? a.priority > b.priority : a.id < b.id;

/** Nobody who runs is sent back for somebody who waits, only for somebody who runs and cannot go on. */
export const priority: SchedulerPlugin = {
  name: "priority",
  about: "continuous batching, the most important request first; the least important one makes room",
  source: "vLLM (v1), --scheduling-policy priority",
  options: continuousOptions,
  create: ({ rules, options }) =>
    new ContinuousBatching(
      {
        first: (context) => firstWaitingBy(context, isBefore),
        victimOf: (running) => lastRunningBy(running, isBefore),
      },
      rules,
      options,
    ),
};
