import { byScore, compare, type EvictionPlugin, openTrace, replay, simulate } from "kvlab";

/** Evicts the entry with the fewest hits; of those, the least recently used. */
const fewestHits: EvictionPlugin = {
  name: "fewest-hits",
  about: "fewest hits first, then the least recently used",
  source: "example",
  ...byScore("accessCount", "lastAccess", "releaseOrder"),
};

const trace = await openTrace("example", { limit: 500 }); // or a file, or several
const stop = AbortSignal.timeout(60_000);

const { report } = await replay(trace, { eviction: fewestHits, blocks: { share: 0.1 }, signal: stop });
console.log("hit ratio by token", report.cache.hitRatio.token);

const served = await simulate(trace, { preset: "vllm", eviction: fewestHits, gpu: "h200", rate: 4 });
console.log("mean TTFT in ms", served.report.latency?.ttftMs?.mean);

const { comparison } = await compare(trace, {
  eviction: ["lru", "fifo", fewestHits],
  blocks: [{ share: 0.05 }, { share: 0.25 }],
  progress: ({ doing, done, total }) => console.error(doing, done, "of", total),
});
for (const { configuration, runs } of comparison.results)
  console.log(configuration.label, ...runs.map(({ cache }) => cache.hitRatio.block));
