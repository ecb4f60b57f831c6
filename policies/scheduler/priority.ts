import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, firstWaitingBy, type IsBefore, lastRunningBy } from "./continuous.ts";

/** Higher priority first; ties are broken by arrival. */
const isBefore: IsBefore = ({ request: a }, { request: b }) =>
  a.priority !== b.priority ? a.priority > b.priority : a.id < b.id;

/** A running request is preempted only for another running one, never for a waiting one. */
export const priority: SchedulerPlugin = {
  name: "priority",
  about: "continuous batching, highest priority first; the lowest priority is preempted",
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
