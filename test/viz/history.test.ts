import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import { evict, pin, reset, unpin } from "../../core/cache/operations.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { LoggedState } from "../../core/log/block-lives.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { EventKind, type EventName, eventNames } from "../../core/log/events.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { replayTrace } from "../../core/replica/replay.ts";
import { stateAfter } from "../../lab/verify/served-state.ts";
import { presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { simulate } from "../../sim/simulation.ts";
import { blockMapOf } from "../../viz/log/block-map.ts";
import type { BlockStates } from "../../viz/log/block-states.ts";
import { EventHistory } from "../../viz/log/event-history.ts";
import { runsOf, treeOf } from "../../viz/log/prefix-tree.ts";
import {
  linearCost,
  type OwnSimulation,
  type Row,
  simulationConfigOf,
  tracesOf,
  workloads,
} from "../support/simulated.ts";

/** A history to which the log is added in short pieces, and which keeps a state after every 32 events. */
function historyOf(log: EventLog, blocks?: number, piece = 50): EventHistory {
  const history = new EventHistory({ blockTokens: 4, blocks, distance: 32, mostBytes: 40_000 });
  for (let from = 0; from < log.count; from += piece) history.append(part(log, from, from + piece));
  return history;
}

function part(log: EventLog, from: number, to: number) {
  const { kind, timeNs, request, block, key, value } = log.columns();
  return {
    kind: kind.subarray(from, to),
    timeNs: timeNs.subarray(from, to),
    request: request.subarray(from, to),
    block: block.subarray(from, to),
    key: key.subarray(from, to),
    value: value.subarray(from, to),
  };
}

/** By block: the requests and pins that reference it, from the log alone. */
function referencesAfter(log: EventLog, events: number): Map<number, Set<number>> {
  const references = new Map<number, Set<number>>();
  const tables = new Map<number, Map<number, number>>();
  const { kind, request, block, key, value } = log.columns();
  for (let at = 0; at < events; at++) {
    const name = eventNames[kind[at]];
    const table = tables.get(request[at]) ?? new Map<number, number>();
    if (["hit", "adopt", "pin", "allocate", "copy"].includes(name)) table.set(value[at], block[at]);
    if (name === "duplicate") table.set(value[at], key[at]);
    if (["finish", "preempt", "refuse", "unpin"].includes(name)) tables.delete(request[at]);
    else tables.set(request[at], table);
  }
  for (const [request, table] of tables)
    for (const block of table.values()) references.set(block, (references.get(block) ?? new Set()).add(request));
  return references;
}

/** By cached block: its hits, its content and that of the block before it in its request, from the log alone. */
function cachedAfter(log: EventLog, events: number) {
  const cached = new Map<number, { hits: number; content: number; place: number; before: number | undefined }>();
  const paths = new Map<number, number[]>();
  const { kind, request, block, key, value } = log.columns();
  for (let at = 0; at < events; at++) {
    const name = eventNames[kind[at]];
    if (name === "admit") paths.set(request[at], []);
    const path = paths.get(request[at]) ?? [];
    if (name === "hit") cached.get(block[at])!.hits++;
    if (name === "hit" || (name === "adopt" && key[at] >= 0)) path[value[at]] = key[at];
    if (name === "duplicate") path[value[at]] = cached.get(key[at])!.content;
    if (name === "publish") {
      path[value[at]] = key[at];
      cached.set(block[at], { hits: 0, content: key[at], place: value[at], before: path[value[at] - 1] });
    }
    if (name === "evict" || name === "drop") cached.delete(block[at]);
  }
  return cached;
}

function expectSame(log: EventLog, history: EventHistory, events: number): void {
  const outcomes = { arrivalNs: new Float64Array(0) };
  const { state, cache } = stateAfter({ log, outcomes } as never, events, 0, history.blocks);
  const states = history.stateAt(events);
  const { counts, running } = states;
  expect([...running]).toEqual(state.running);
  expect([counts[0], counts[1], counts[2], counts[3]]).toEqual([
    ...[state.free, state.private, state.cachedHeld, state.cachedIdle],
  ]);
  const references = referencesAfter(log, events);
  const cached = cachedAfter(log, events);
  const { request } = log.columns();
  for (let block = 0; block < history.blocks; block++) {
    expect(states.isCached(block), `block ${block}`).toBe(cache.isCached(block));
    if (states.life[block] === LoggedState.referenced || states.life[block] === LoggedState.private) {
      // The owner of a referenced block is one of the requests that reference it.
      const all = references.get(block);
      if (all) expect([...all], `block ${block} after ${events} events`).toContain(states.owner[block]);
    } else expect(states.owner[block]).toBe(-1);
    const here = cached.get(block);
    expect(here !== undefined, `block ${block}`).toBe(states.isCached(block));
    if (!here) continue;
    const { event, parent } = history.publications;
    const publication = states.publication[block];
    const { key, value } = log.columns();
    expect(cache.usersOf(block)?.cachedBy).toBe(request[event[publication]]);
    expect([states.hits[block], key[event[publication]], value[event[publication]]]).toEqual([
      ...[here.hits, here.content, here.place],
    ]);
    if (parent[publication] >= 0) expect(key[event[parent[publication]]]).toBe(here.before);
  }
  expectTree(history, states, cached);
}

/** Every cached block is in the tree once, below the block before it if that is cached. */
function expectTree(history: EventHistory, states: BlockStates, cached: ReturnType<typeof cachedAfter>): void {
  const { count, order, start, parent } = runsOf(history, states);
  expect([...order].sort((a, b) => a - b)).toEqual([...cached.keys()].sort((a, b) => a - b));
  const contents = new Set([...cached.values()].map(({ content }) => content));
  for (let run = 0; run < count; run++)
    for (let at = start[run]; at < start[run + 1]; at++) {
      const above = at > start[run] ? order[at - 1] : parent[run] < 0 ? undefined : order[start[parent[run] + 1] - 1];
      const one = cached.get(order[at])!;
      const before = one.before !== undefined && contents.has(one.before) ? one.before : undefined;
      expect(above === undefined ? undefined : cached.get(above)!.content).toBe(before);
    }
  for (const most of [1, 3, 1000]) {
    const { parent: parents, tokens, merged, heldBlocks, hits } = treeOf(history, states, most, -1);
    expect(parents.length).toBeLessThanOrEqual(most);
    expect(parents.every((node, i) => node < i)).toBe(true);
    const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
    expect(sum(tokens)).toBe(4 * cached.size);
    expect([sum(merged), sum(heldBlocks)]).toEqual([count, states.counts[LoggedState.referenced]]);
    expect(sum(hits)).toBe(sum([...cached.values()].map((one) => one.hits)));
  }
}

const presets = presetRegistry.all.map((preset) => [preset.name, preset] as const);
const sizes = fc.record({
  blocks: fc.option(fc.integer({ min: 5, max: 40 }), { nil: undefined }),
  scheduler: fc.constantFrom("naive", ...schedulerRegistry.all.map(({ name }) => name)),
});

function logsOf(rows: readonly Row[], own: OwnSimulation): EventLog[] {
  const [trace] = tracesOf(rows);
  const { router: _, ...config } = simulationConfigOf({
    ...own,
    events: true,
    cost: linearCost({ fixed: 300, prefillTokens: 20 }),
  });
  return [simulate(trace, config).replicas[0].log!, replayTrace(trace, { ...config, generation: "step" }).log!];
}

const seen = new Set<string>();

describe("a history has the block states that reading the log from its beginning gives", () => {
  test.each(presets)("%s", (_name, preset) => {
    fc.assert(
      fc.property(
        workloads({ maxGapNs: 600 }),
        sizes,
        fc.array(fc.nat(), { minLength: 5, maxLength: 5 }),
        (rows, size, places) => {
          for (const log of logsOf(rows, { preset, ...size })) {
            const history = historyOf(log, size.blocks);
            for (const kind of log.columns().kind) seen.add(eventNames[kind]);
            for (const place of [...places, log.count]) expectSame(log, history, place % (log.count + 1));
          }
        },
      ),
      { numRuns: 12 },
    );
  });

  test("with operator-initiated pins, resets and evictions", () => {
    const cases = fc.record({
      rows: workloads(),
      preset: fc.constantFrom(...presetRegistry.all),
      blocks: fc.integer({ min: 20, max: 60 }),
    });
    fc.assert(
      fc.property(cases, ({ rows, preset, blocks }) => {
        const own = { preset, blocks, events: true, rules: { ...preset.rules, "pin-blocks": 12 } };
        const { router: _, ...config } = simulationConfigOf(own);
        const [trace] = tracesOf(rows);
        const columns = blockKeysFor(config, 1).of(trace);
        const pins: Sequence[] = [];
        const before = (row: number, cache: KvCache) => {
          if (row % 5 === 4) for (const one of pins.splice(0)) unpin(cache, one, 0);
          if (row % 7 === 6) evict(cache, 3, 0);
          if (row % 11 === 10) reset(cache, 0);
          if (row % 2 === 0 || row === 0) return;
          const request = new Request(row - 1, trace, row - 1, columns);
          cache.sessions.keep(request, 1e9, 0);
          request.id = -2 - row;
          const prefix = new Sequence(request);
          if (pin(cache, prefix, 0) === "pinned") pins.push(prefix);
        };
        const log = replayTrace(trace, { ...config, generation: "step", before }).log!;
        for (const kind of log.columns().kind) seen.add(eventNames[kind]);
        const history = historyOf(log, blocks);
        for (let event = 0; event < log.count; event += 1 + Math.floor(log.count / 6)) expectSame(log, history, event);
        expectSame(log, history, log.count);
      }),
      { numRuns: 60 },
    );
  });

  test("the logs above contain every kind of event but swaps, transfers and rejected drafts", () => {
    expect(eventNames.filter((name) => !seen.has(name))).toEqual(["swapOut", "swapIn", "send", "receive", "trim"]);
  });
});

/** Events as rows: kind, time, request, block, key, value. */
function columnsOf(rows: readonly (readonly [EventName, ...number[]])[]) {
  const log = new EventLog();
  for (const [name, timeNs, request, block, key, value] of rows)
    log.add(EventKind[name], timeNs, request, block, key, value);
  return log.columns();
}

test("with more blocks than cells, neighbours share a cell, which shows the most used state", () => {
  const history = new EventHistory({ blockTokens: 4, blocks: 200_000 });
  history.append(
    columnsOf([
      ["admit", 0, 7, -1, 0, 0],
      ["allocate", 0, 7, 100_000, -1, 0],
      ["allocate", 0, 7, 100_003, -1, 1],
      ["publish", 5, 7, 100_003, 1, 0],
    ]),
  );
  const { blocksPerCell, cells, life, owner } = blockMapOf(history, history.stateAt(4));
  expect([blocksPerCell, cells]).toEqual([4, 50_000]);
  const lives = Buffer.from(life, "base64");
  expect([lives.length, lives[25_000], lives[25_001]]).toEqual([50_000, LoggedState.referenced, LoggedState.free]);
  const owners = Buffer.from(owner, "base64");
  expect([owners.readInt32LE(100_000), owners.readInt32LE(100_004)]).toEqual([7, -1]);
  expect([...history.stateAt(3).counts]).toEqual([199_998, 2, 0, 0]);
});

test("an impossible event is refused, and the events before it stay in the log", () => {
  const history = new EventHistory({ blockTokens: 4 });
  const good = [
    ["admit", 0, 0, -1, 0, 0],
    ["allocate", 3, 0, 2, -1, 0],
  ] as const;
  expect(() => history.append(columnsOf([...good, ["hit", 4, 0, 2, 9, 0]]))).toThrow(
    "event 2 (hit): block 2 is private, expected referenced or idle",
  );
  expect([history.events, history.blocks]).toEqual([2, 3]);
  history.append(columnsOf([["publish", 4, 0, 2, 9, 0]]));
  expect([...history.stateAt(3).counts]).toEqual([2, 0, 1, 0]);
});
