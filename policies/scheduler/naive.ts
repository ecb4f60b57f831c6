import type { SchedulerPlugin } from "../../core/plugins/index.ts";

/** One request at a time, in order of arrival: its whole prompt in one step, then one output token per step. */
export const naive: SchedulerPlugin = {
  name: "naive",
  about: "one request at a time, in order of arrival",
  source: "roseinfer (naive), baseline",
  create: () => ({
    plan(context) {
      if (context.running.length > 0) {
        const running = context.running[0];
        if (context.schedule(running)) return "until-change";
        context.refuse(running, "its answer needs more blocks than the cache has");
      }
      for (let first = context.firstWaiting; first; first = context.firstWaiting) {
        if (context.admit(first)) break;
        context.refuse(first, "it needs more blocks than the cache has");
      }
      return "until-change";
    },
  }),
};
