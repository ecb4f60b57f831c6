import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { quantile } from "../../core/serving/distribution.ts";
import type {
  LatencySeries,
  ReplicasData,
  RequestHistory,
  RequestsData,
  SeriesData,
  SessionsData,
} from "../../viz/api.ts";
import { phasesOf } from "../../viz/app/data/request-times.ts";
import { latencySeriesOf } from "../../viz/server/latency-series.ts";
import { replicasOf } from "../../viz/server/replicas.ts";
import { Requests } from "../../viz/server/requests.ts";
import { sessionsOf } from "../../viz/server/sessions.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

interface Report {
  readonly warmup: number;
  readonly cache: { readonly missTokens: Readonly<Record<string, number>>; readonly hitTokens: number };
  readonly cluster: {
    readonly replicas: readonly {
      readonly requests: number;
      readonly hitRatioToken: number;
      readonly utilisation: number;
    }[];
  };
  readonly throughput: { readonly makespanS: number };
}

const folder = newFolder();
let client: Client;

async function run(id: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await ended(start(folder, ["replay", "example", ...args, "--out", `runs/${id}`]));
  if (code !== 0) throw new Error(stderr);
}

const reportOf = async (id: string) => (await client.get<{ report: Report }>(`/api/runs/${id}`)).report;

beforeAll(async () => {
  const sim = ["--target", "sim", "--blocks", "1000"];
  await run(
    "cluster",
    "--limit",
    "400",
    ...sim,
    "--preset",
    "vllm",
    "--replicas",
    "3",
    "--router",
    "round-robin",
    "--warmup",
    "50",
  );
  await run("single", "--limit", "300", ...sim, "--preset", "sglang", "--rate", "20", "--events");
  await run("rewritten", "--limit", "300", "--preset", "prefix-pool", "--blocks", "500", "--events");
  await run("cached", "--limit", "300", "--preset", "vllm", "--blocks", "500", "--events");
  client = await dashboardOver(join(folder, "runs"));
}, 120_000);

describe("latency over time", () => {
  const requests = fc.array(
    fc.record({
      first: fc.integer({ min: 0, max: 999 }),
      ttft: fc.integer({ min: 1, max: 500 }),
      isWarmup: fc.boolean(),
    }),
    { maxLength: 80 },
  );

  test("has the exact quantiles of the measured requests whose first token is in each interval, and none where there is none", () => {
    fc.assert(
      fc.property(requests, fc.integer({ min: 1, max: 130 }), (drawn, bins) => {
        const all = drawn.map((each) => ({ ...each, first: each.first % (10 * bins) }));
        const length = 10;
        const startNs = Array.from({ length: bins }, (_, i) => i * length);
        const endNs = startNs.map((from) => from + length);
        const column = (of: (each: (typeof all)[number]) => number) => Float64Array.from(all, of);
        const none = column(() => Number.NaN);
        const columns = new Map([
          ...([
            ["ttftMs", column(({ ttft }) => ttft)],
            ["firstTokenNs", column(({ first }) => first)],
          ] as const),
          ...(["tpotMs", "queueMs", "finishedNs", "admittedNs"] as const).map((name) => [name, none] as const),
          ["warmup", column(({ isWarmup }) => Number(isWarmup))] as const,
        ]);
        const series = latencySeriesOf(columns, { startNs, endNs })!;
        expect(series.startNs.length).toBeLessThanOrEqual(60);
        expect(series.endNs.at(-1)).toBe(endNs.at(-1));
        const counted = series.startNs.map((from, i) => {
          const isIn = ({ first }: (typeof all)[number]) => first >= from && first < series.endNs[i];
          return all.filter((each) => !each.isWarmup && isIn(each)).map(({ ttft }) => ttft);
        });
        for (const [name, share] of [
          ["p50", 0.5],
          ["p99", 0.99],
        ] as const)
          expect(series.columns["ttftMs"][name]).toEqual(
            counted.map((values) => (values.length === 0 ? null : quantile(Float64Array.from(values).sort(), share))),
          );
        expect(series.columns["queueMs"].p50.every((value) => value === null)).toBe(true);
      }),
    );
  });

  test("of a run over one interval has the quantiles of its report", async () => {
    const { latency } = await client.get<{ latency: LatencySeries }>("/api/runs/cluster/series?bins=1");
    const { report } = await client.get<{ report: { latency: Record<string, { p50: number; p99: number }> } }>(
      "/api/runs/cluster",
    );
    for (const name of ["ttftMs", "tpotMs", "queueMs"])
      for (const quantileName of ["p50", "p99"] as const)
        expect(latency.columns[name][quantileName]).toEqual([report.latency[name][quantileName]]);
  });

  test("is absent without a clock", async () => {
    expect((await client.get<SeriesData>("/api/runs/cached/series")).latency).toBeUndefined();
  });
});

describe("replicas", () => {
  test("have the requests, hit ratios and utilisation of the report, in total and over time", async () => {
    const { replicas, startNs, endNs } = await client.get<ReplicasData>("/api/runs/cluster/replicas?bins=7");
    const { cluster, warmup } = await reportOf("cluster");
    expect(warmup).toBe(50);
    expect(startNs).toHaveLength(7);
    expect(replicas.map(({ requests }) => requests)).toEqual(cluster.replicas.map(({ requests }) => requests));
    replicas.forEach((row, i) => {
      expect(row.hitRatio).toBeCloseTo(cluster.replicas[i].hitRatioToken, 12);
      expect(row.finished.reduce((sum, count) => sum + count, 0)).toBe(row.requests);
      const busy = row.utilisation!.reduce((sum, share, at) => sum + share * (endNs[at] - startNs[at]), 0);
      // A step of a warm-up request may have begun before the first arrival of a measured one.
      expect(busy / (endNs[6] - startNs[0])).toBeCloseTo(cluster.replicas[i].utilisation, 1);
    });
  });

  test("with any number are listed, and a table without their times is refused", () => {
    const names = ["request", "arrivalNs", "admittedNs", "firstTokenNs", "finishedNs", "inputTokens", "outputTokens"];
    const table = (values: Readonly<Record<string, number>>) => ({
      rowCount: 1,
      columns: new Map(Object.entries(values).map(([name, value]) => [name, Float64Array.of(value)])),
    });
    const times = Object.fromEntries(names.map((name, i) => [name, i + 1]));
    const requests = new Requests(table({ ...times, hitTokens: 0, refused: 0, replica: 2e9 }));
    const steps = table({ replica: 2e9, startNs: 2, durationNs: 1e15 });
    const { replicas } = replicasOf(requests, steps, 1);
    expect(replicas).toMatchObject([{ replica: 2e9, requests: 1, finished: [1], hitRatios: [0] }]);
    expect(() => replicasOf(new Requests(table({ request: 0, replica: 0 })), steps, 1)).toThrow(/damaged/);
    expect(() => sessionsOf(new Requests(table({ request: 0, session: 1 })), 5)).toThrow(/damaged/);
  });

  test("are refused for a run without a clock", async () => {
    expect(await client.request("/api/runs/cached/replicas")).toMatchObject({ status: 404 });
  });
});

describe("sessions", () => {
  test("have the requests of the trace with their session, those with the most requests first", async () => {
    const { total, sessions } = await client.get<SessionsData>("/api/runs/cached/sessions?most=1000");
    const { columns } = await client.get<RequestsData>("/api/runs/cached/requests?points=300");
    const own = (session: number) => columns["session"].flatMap((each, row) => (each === session ? [row] : []));
    expect(total).toBe(new Set(columns["session"].filter((each) => each !== 0)).size);
    expect(sessions).toHaveLength(total);
    expect(total).toBeGreaterThan(1);
    for (const { session, requests, firstRequest, inputTokens, hitTokens } of sessions) {
      const rows = own(session);
      const sum = (name: string) => rows.reduce((all, row) => all + columns[name][row]!, 0);
      expect([requests, firstRequest]).toEqual([rows.length, columns["request"][rows[0]]]);
      expect([inputTokens, hitTokens]).toEqual([sum("inputTokens"), sum("hitTokens")]);
    }
    const counts = sessions.map(({ requests }) => requests);
    expect(counts).toEqual([...counts].sort((a, b) => b - a));
  });
});

describe("the history of a request", () => {
  test.each(["single", "cached", "rewritten"])(
    "of %s has its misses by reason, which add up to those of the report",
    async (id) => {
      const { cache } = await reportOf(id);
      const sums: Record<string, number> = {};
      for (let request = 0; request < 300; request++) {
        const { columns, log } = await client.get<RequestHistory>(`/api/runs/${id}/history?request=${request}`);
        const missed = Object.values(log!.missTokens).reduce((sum, tokens) => sum + tokens, 0);
        if (columns["refused"] === 0) expect(columns["hitTokens"]! + missed).toBe(columns["inputTokens"]);
        for (const [reason, tokens] of Object.entries(log!.missTokens)) sums[reason] = (sums[reason] ?? 0) + tokens;
      }
      const reported = Object.entries(cache.missTokens).filter(([, tokens]) => tokens > 0);
      expect(sums).toEqual(Object.fromEntries(reported));
    },
  );

  test("has the events of its admission and its end, and the requests of its session", async () => {
    const { sessions } = await client.get<SessionsData>("/api/runs/single/sessions?most=1");
    const [{ firstRequest, requests, session }] = sessions;
    const history = await client.get<RequestHistory>(`/api/runs/single/history?request=${firstRequest}`);
    expect(history.columns["session"]).toBe(session);
    expect(history.session).toHaveLength(requests);
    expect(history.session[0].request).toBe(firstRequest);
    const { events } = history.log!;
    expect([events[0].kind, events.at(-1)!.kind]).toEqual(["admit", "finish"]);
    expect([events[0].timeNs, events.at(-1)!.timeNs]).toEqual([
      history.columns["admittedNs"],
      history.columns["finishedNs"],
    ]);
    const moment = await client.get<{ next: { kind: string; request: number }[] }>(
      `/api/runs/single/moment?event=${events[0].event}`,
    );
    expect(moment.next[0]).toMatchObject({ kind: "admit", request: firstRequest });
  });

  test("of a run whose log cannot be shown has the reason instead of misses", async () => {
    const { log, noLog } = await client.get<RequestHistory>("/api/runs/cluster/history?request=60");
    expect(log).toBeNull();
    expect(noLog).toMatch(/saved without its events/);
  });

  test.each([
    ["request=300", 404, /no request 300/],
    ["request=-1", 400, /request/],
    ["request=1.5", 400, /request/],
    ["", 400, /request/],
    ["request=1&x=1", 400, /x/],
  ])("with %j is refused", async (query, status, message) => {
    const response = await client.request(`/api/runs/single/history?${query}`);
    expect(response.status).toBe(status);
    expect(response.text).toMatch(message);
  });
});

test("the phases of a request follow each other from its arrival to its end; a refused one has none", () => {
  const times = { arrivalNs: 5, admittedNs: 9, firstTokenNs: 20, finishedNs: 40, refused: 0 };
  expect(phasesOf(times)).toEqual([
    { name: "queueing", fromNs: 5, toNs: 9 },
    { name: "prefill", fromNs: 9, toNs: 20 },
    { name: "decode", fromNs: 20, toNs: 40 },
  ]);
  expect(phasesOf({ ...times, refused: 1 })).toEqual([]);
  expect(phasesOf({ arrivalNs: 5, refused: 0 })).toEqual([]);
});
