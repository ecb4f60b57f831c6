import { byScore, type EvictionPlugin, openTrace, replay, type SchedulerPlugin, serveTrace, simulate } from "kvlab";

/** Evicts the entry that is cheapest to recompute; of those, the least recently used. */
const cheapest: EvictionPlugin = {
  name: "cheapest",
  about: "lowest cost of recomputation first, then the least recently used",
  source: "example",
  ...byScore("recomputeCost", "lastAccess", "releaseOrder"),
};

/** Runs at most `max-num-seqs` requests in order of arrival; a request that has no block left is preempted. */
const inOrder: SchedulerPlugin = {
  name: "in-order",
  about: "first come, first served",
  source: "example",
  options: { "max-num-seqs": { about: "most requests in a step", default: 16, min: 1 } },
  create: ({ options }) => ({
    plan(context) {
      for (const sequence of [...context.running])
        if (!context.schedule(sequence)) context.preempt(sequence, "recompute");
      for (let next = context.firstWaiting; next; next = context.firstWaiting) {
        if (context.running.length >= options["max-num-seqs"]) return;
        if (context.admit(next)) continue;
        if (context.running.length > 0) return;
        context.refuse(next, "it does not fit in the cache");
      }
    },
  }),
};

const trace = await openTrace("example", { limit: 8 });
const configuration = { eviction: cheapest, scheduler: inOrder, blocks: { blocks: 400 } };

// Without a clock, in virtual time on a modelled GPU, and in real time with a model of random weights on this CPU.
const replayed = await replay(trace, configuration);
const simulated = await simulate(trace, { ...configuration, model: "llama-3.1-8b", gpu: "h200" });
const served = await serveTrace(trace, { ...configuration, model: "random:tiny" });

for (const { report } of [replayed, simulated, served]) {
  const { target, policy, cache, latency } = report;
  console.log(
    target,
    policy.eviction,
    policy.scheduler,
    "hit tokens",
    cache.hitTokens,
    "TTFT in ms",
    latency?.ttftMs?.mean,
  );
}
