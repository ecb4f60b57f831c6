import fc from "fast-check";
import { audit } from "../core/cache/audit.ts";
import { Request } from "../core/cache/request.ts";
import type { SchedulerPlugin } from "../core/plugins/index.ts";
import { type CacheConfig, createCache, createScheduler } from "../core/replica/compose.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import { Replica } from "../core/replica/replica.ts";
import { type PartTrial, partTrial } from "./check-part.ts";
import { callsReturn, conservation } from "./contract-laws.ts";
import { type Law, require, same } from "./law.ts";
import type { PluginSet } from "./plugin-set.ts";
import { traceOf, type Workload, workloads } from "./workloads.ts";

const ends: Law = {
  name: "every-request-ends",
  statement: "every request generates all its output tokens, or is refused with a reason and cannot fit in the cache",
};
const noStall: Law = { name: "no-stall", statement: "no step is empty while a request is waiting or running" };
const onceAStep: Law = { name: "once-a-step", statement: "a step contains only running requests, each once" };
const releases: Law = { name: "releases", statement: "after the last request no block is referenced" };
const repeats: Law = { name: "determinism", statement: "the same requests are served in the same steps" };

const mostSteps = 5_000;

/** The laws of a scheduler, in a replica with a hash table, LRU and small caches. */
export function schedulerTrials(plugin: SchedulerPlugin, { reference, allocators }: PluginSet): PartTrial[] {
  const cases = fc.record({
    workload: workloads({ related: true, namespaces: 1 }),
    gaps: fc.array(fc.nat(6), { minLength: 1, maxLength: 6 }),
    blockUnits: fc.integer({ min: 1, max: 3 }),
    blocks: fc.integer({ min: 1, max: 24 }),
  });
  type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;
  const served = ({ workload, gaps, blockUnits, blocks }: Case) => {
    const parts = { index: reference.index, eviction: reference.eviction, allocator: allocators[0] };
    return serve(plugin, workload, gaps, {
      ...parts,
      blockTokens: workload.unitTokens * blockUnits,
      blocks,
      rules: {},
      seed: 1,
    });
  };
  return [
    partTrial({
      laws: [ends, noStall, onceAStep, releases, conservation, repeats, callsReturn],
      cases,
      check: (one) => same(repeats, "the second run's steps", served(one), served(one)),
    }),
  ];
}

/** Serves the requests and returns the steps. @throws LawBroken */
function serve(
  plugin: SchedulerPlugin,
  workload: Workload,
  gaps: readonly number[],
  config: CacheConfig & { blocks: number },
) {
  const [trace] = traceOf(workload);
  const columns = CacheReplay.blockKeys({ ...config, scheduler: plugin }, trace);
  const cache = createCache(config);
  const generated = new Map<number, number>();
  const refused = new Map<number, string>();
  const replica = new Replica({
    cache,
    generation: "step",
    scheduler: createScheduler({ scheduler: plugin, seed: 1 }, cache.rules),
    listener: {
      finished: ({ request, generatedTokens }) => void generated.set(request.id, generatedTokens),
      refused: ({ request }, why) => void refused.set(request.id, why),
    },
  });
  const steps: string[] = [];
  let now = 0;
  let next = 0;
  let arrival = 0;
  while (next < workload.requests.length || !replica.isIdle) {
    for (; next < workload.requests.length && arrival <= now; arrival += gaps[next++ % gaps.length])
      replica.submit(new Request(next, trace, next, columns), now);
    const plan = replica.plan(now);
    const ids = plan.items.slice(0, plan.count).map(({ sequence }) => sequence.request.id);
    const running = replica.running.map(({ request }) => request.id);
    require(onceAStep, new Set(ids).size === ids.length, `step ${steps.length} contains request ${ids.join(", ")}`);
    require(onceAStep, ids.every((id) =>
      running.includes(id),
    ), `step ${steps.length} contains request ${ids.join(", ")}; running are ${running.join(", ")}`);
    require(noStall, !plan.isEmpty || replica.isIdle, `step ${steps.length} is empty, ${replica.waitingCount} waiting`);
    require(ends, steps.length < mostSteps, `no end after ${mostSteps} steps`);
    audit(cache, replica.running);
    steps.push(
      plan.items
        .slice(0, plan.count)
        .map(({ tokens }, i) => `${ids[i]}+${tokens}`)
        .join(" "),
    );
    now++;
    if (!plan.isEmpty) replica.commit(plan, { durationNs: 1 }, now);
    audit(cache, replica.running);
  }
  for (const { id, prompt, output } of workload.requests) {
    const why = refused.get(id);
    const least = Math.ceil((prompt.length + output.length - 1) / config.blockTokens);
    require(ends, why === undefined || (why !== "" && least > config.blocks), `request ${id} was refused: "${why}"`);
    if (why === undefined) same(ends, `output tokens of request ${id}`, generated.get(id), output.length);
  }
  for (let block = 0; block < cache.pool.blockCount; block++)
    same(releases, `reference count of block ${block}`, cache.pool.refCountOf(block), 0);
  return steps;
}
