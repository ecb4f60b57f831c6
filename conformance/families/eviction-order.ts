import { ClientSessions } from "../../core/cache/client-sessions.ts";
import { CacheRequests } from "../../core/cache/replica-requests.ts";
import { EntryColumns } from "../../core/plugins/entry-columns.ts";
import { columnsOf } from "../../core/plugins/eviction-policy.ts";
import type { EvictionPlugin, EvictionPolicy, RequestView } from "../../core/plugins/index.ts";
import { resolveRules } from "../../core/plugins/rules.ts";
import { seededRandom } from "../../core/random.ts";
import { fifo } from "../../policies/eviction/fifo.ts";
import { filo } from "../../policies/eviction/filo.ts";
import { lfu } from "../../policies/eviction/lfu.ts";
import { lru } from "../../policies/eviction/lru.ts";
import { mru } from "../../policies/eviction/mru.ts";
import { priority } from "../../policies/eviction/priority.ts";
import { slruWith } from "../../policies/eviction/slru.ts";
import type { Family } from "../family.ts";
import { type Fields, integer, list, name, number, oneOf, recordOf, Unsupported } from "../values.ts";

/** SGLang: the order in which eviction strategies evict nodes with given times and hits. */
export const evictionOrder: Family = {
  name: "eviction-order",
  configKeys: [],
  ops: { order: { inputs: ["nodes", "now", "policy", "protected_threshold"], expects: { evict_order: "plain" } } },
  start: () => ({
    run(_, { nodes, now, policy, protected_threshold: threshold }) {
      const plugin = pluginNamed(policy, threshold);
      const given = list(nodes, "nodes").map(node);
      return { evict_order: order(plugin, given, now === undefined ? undefined : number(now, "now")) };
    },
  }),
};

function pluginNamed(policy: unknown, threshold: unknown): EvictionPlugin {
  const slru = slruWith(threshold === undefined ? 2 : integer(threshold, "protected_threshold"));
  const plugins = { lru, lfu, fifo, mru, filo, priority, slru };
  return plugins[oneOf(policy, "policy", Object.keys(plugins) as (keyof typeof plugins)[])];
}

interface Node {
  readonly id: unknown;
  readonly last: number;
  readonly created: number;
  readonly hits: number;
  readonly priority: number;
  readonly retention: number;
}

const maxHits = 1e6;

function node(value: unknown): Node {
  const fields = recordOf(value, "a node", ["id", "last", "created", "hits", "prio", "retention"]);
  const { id, last = 0, created = 0, hits = 0, prio = 0, retention = 0 }: Fields = fields;
  name(id, "id of a node");
  const times = integer(hits, "hits of a node");
  if (times > maxHits) throw new Unsupported(`hits of a node is ${times}, expected at most ${maxHits}`);
  return {
    id,
    last: number(last, "last of a node"),
    created: number(created, "created of a node"),
    hits: times,
    priority: integer(prio, "prio of a node", Number.MIN_SAFE_INTEGER),
    retention: number(retention, "retention of a node"),
  };
}

/** Small, so that large times are exact. */
const nsPerUnit = 1e6;

/** Stores the nodes as an index would, in the order of their last use; then evicts all. */
function order(plugin: EvictionPlugin, nodes: readonly Node[], now: number | undefined): unknown[] {
  const rules = resolveRules({ victims: "leaf" });
  const columns = new EntryColumns(nodes.length, "reverse", columnsOf(plugin, rules));
  const policy = plugin.create({
    columns,
    random: seededRandom(1),
    clock: { now: 0 },
    options: {},
    requests: new CacheRequests(),
    sessions: new ClientSessions(undefined),
    blockTokens: 16,
    capacityBlocks: nodes.length,
    rules,
  });
  const usedAt = ticks(nodes.map(({ last }) => last));
  const createdAt = ticks(nodes.map(({ created }) => created));
  const byUse = nodes.map((_, i) => i).sort((a, b) => usedAt[a] - usedAt[b]);
  for (const i of byUse) {
    const { last, hits, priority, retention } = nodes[i];
    const request = requestOf(i, priority, Math.round(retention * nsPerUnit));
    policy.begin?.(request, Math.round(last * nsPerUnit));
    // At equal scores the node named first is evicted first.
    columns.created(i, createdAt[i], nodes.length - i, 1, i);
    policy.published?.(i, request);
    for (let hit = 0; hit < hits; hit++) {
      columns.hit(i);
      policy.hit?.(i, request);
    }
    columns.touched(i, usedAt[i]);
    policy.add(i);
  }
  const latest = nodes.reduce((most, { last }) => Math.max(most, last), Number.NEGATIVE_INFINITY);
  return evicted(policy, Math.round((now ?? latest) * nsPerUnit)).map((i) => nodes[i].id);
}

function evicted(policy: EvictionPolicy, now: number): number[] {
  const victims: number[] = [];
  for (let entry = policy.victim(now); entry !== undefined; entry = policy.victim(now)) {
    policy.remove(entry, "evicted");
    victims.push(entry);
  }
  return victims;
}

/** Times as whole numbers from 1 in the same order. */
function ticks(times: readonly number[]): number[] {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  const tickOf = new Map(sorted.map((time, i) => [time, i + 1]));
  return times.map((time) => tickOf.get(time)!);
}

const requestOf = (id: number, priority: number, retentionNs: number): RequestView => ({
  id,
  arrivalNs: 0,
  inputTokens: 1,
  maxOutputTokens: 1,
  namespace: 0,
  session: 0,
  category: 0,
  priority,
  retentionNs,
  markedTokens: 0,
  keys: new Uint32Array(1),
  keyStart: 0,
  promptBlocks: 1,
});
