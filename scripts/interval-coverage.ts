// How often the 95 % intervals of `kvlab compare` contain the true difference: generated traffic is cut into windows, each is
// replayed with two policies, and the true difference is the mean over all windows.
//   npx tsx scripts/interval-coverage.ts [windows] [requests per window] [blocks]
import { CacheReplay, type ReplayConfig } from "../core/replica/replay.ts";
import { readTrace, rowOf, type Trace, TraceBuilder } from "../core/trace/trace.ts";
import { inMemory } from "../lab/run/block-stream.ts";
import { discarded } from "../lab/run/run-sink.ts";
import { Bootstrap, type Interval } from "../lab/uncertainty/bootstrap.ts";
import { sessionGroups } from "../lab/uncertainty/session-groups.ts";
import { SessionHits } from "../lab/uncertainty/session-hits.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../policies/registry.ts";
import { chatSource } from "../traces/generators/chat.ts";

const [windows = 1000, requests = 600, blocks = 800] = process.argv.slice(2).map(Number);
const trace = await readTrace(chatSource({ requests: windows * requests }));

const configOf = (eviction: string): ReplayConfig => ({
  index: indexRegistry.get("hash-table"),
  eviction: evictionRegistry.get(eviction),
  allocator: allocatorRegistry.get("block"),
  scheduler: schedulerRegistry.get("naive"),
  ...{ blockTokens: 16, blocks, rules: {}, seed: 1 },
});

function windowOf(first: number): Trace {
  const builder = new TraceBuilder(trace.unitTokens, trace.distinctKeys, trace);
  for (let r = first; r < first + requests; r++) builder.add(rowOf(trace, r));
  return builder.take();
}

const differences: Interval[] = [];
const ratios: Interval[] = [];
for (let w = 0; w < windows; w++) {
  const window = windowOf(w * requests);
  const columns = CacheReplay.blockKeys(configOf("lru"), window);
  const groups = await sessionGroups(inMemory(window, columns));
  const [lru, lfu] = ["lru", "lfu"].map((eviction) => {
    const hits = new SessionHits("block", groups, 16, 0, discarded);
    const replay = new CacheReplay(configOf(eviction), (results) => hits.addRequests(results));
    replay.feed(window, columns);
    replay.end();
    return hits;
  });
  const bootstrap = new Bootstrap(groups.groups, w);
  const gains = lfu.hits.map((hits, g) => hits - lru.hits[g]);
  differences.push(bootstrap.ratio(gains, lru.lookups)!);
  ratios.push(bootstrap.ratio(lru.hits, lru.lookups)!);
}

for (const [name, intervals] of [
  ["lfu − lru", differences],
  ["lru", ratios],
] as const) {
  const truth = intervals.reduce((sum, { value }) => sum + value, 0) / windows;
  const covered = intervals.filter(({ low, high }) => low <= truth && truth <= high).length;
  const width = intervals.reduce((sum, { low, high }) => sum + high - low, 0) / windows;
  console.log(
    `${name}: mean ${truth.toFixed(4)}, mean width of the intervals ${width.toFixed(4)}, ` +
      `${((covered / windows) * 100).toFixed(1)} % of ${windows} contain the mean`,
  );
}
