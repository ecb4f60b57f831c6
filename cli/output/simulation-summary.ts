import { counted } from "../../core/counted.ts";
import { admissionLimits } from "../../core/plugins/scheduler.ts";
import type { Distribution } from "../../core/serving/distribution.ts";
import { approximate, duration, percent } from "../../lab/output/numbers.ts";
import type { RunReport } from "../../lab/output/report.ts";
import { backendOf, deviceText } from "../../lab/run/target.ts";
import { limitMeanings, limitNames, unsteadiness } from "./load-notes.ts";
import { aligned, colors, wrapped } from "./table.ts";

/** The summary's rows about the engine or the simulated hardware. */
export function engineRows(report: RunReport): [string, string][] {
  const { simulation, policy } = report;
  if (!simulation) return realEngineRows(report);
  const { model, gpu, tensorParallel, cost, costNote, replicas, router } = simulation;
  const stages = simulation.pipelineParallel ?? 1;
  const count = tensorParallel * stages;
  const devices = `${count === 1 ? "" : `${count} × `}${gpu}${stages === 1 ? "" : ` in ${stages} pipeline stages`}${simulation.expertParallel ? ", expert parallelism" : ""}`;
  const cluster = replicas === 1 ? "" : `; ${clusterText(simulation, router ?? "none")}`;
  const engine =
    cost === "roofline"
      ? `${colors.bold(model)} on ${devices}${cluster}`
      : `step times from ${colors.bold(cost)}, memory of ${model} on ${devices}${cluster}`;
  const note: [string, string][] = costNote === null ? [] : [["note", colors.yellow(costNote)]];
  return [
    ["engine", engine],
    ...note,
    ...stepRows(policy, stages),
    ...draftRows(report),
    ...networkRows(simulation),
    ...loadRows(simulation),
  ];
}

function clusterText(simulation: NonNullable<RunReport["simulation"]>, router: string): string {
  const { replicas, disaggregation, dataParallel = 1 } = simulation;
  if (!disaggregation)
    return `${dataParallel > 1 ? `data parallelism of ${dataParallel}` : `${replicas} replicas`}, router ${colors.bold(router)}`;
  const { prefillReplicas, decodeReplicas, decodeRouter, link } = disaggregation;
  const pool = (count: number, role: string, name: string) =>
    `${count} ${role} ${count === 1 ? "replica" : `replicas (router ${colors.bold(name)})`}`;
  const { bytesPerS, latencyNs } = link;
  return `${pool(prefillReplicas, "prefill", router)}, ${pool(decodeReplicas, "decode", decodeRouter)}, KV over links of ${bytesPerS / 1e9} GB/s, ${duration(latencyNs / 1e6)}`;
}

function draftRows({ simulation, drafts }: RunReport): [string, string][] {
  if (!simulation?.speculation || !drafts) return [];
  const { tokens, acceptance, draft } = simulation.speculation;
  const cost = typeof draft === "number" ? `${percent(draft)} of a step each` : `model ${colors.bold(draft)}`;
  return [
    [
      "drafts",
      `${counted(tokens, "draft token")} per decode, accepted with ${percent(acceptance)}, ${cost}: ${drafts.tokensPerDecode.toFixed(2)} output tokens per decode`,
    ],
  ];
}

function networkRows({ network }: NonNullable<RunReport["simulation"]>): [string, string][] {
  if (!network) return [];
  const { clientNs, routerNs } = network;
  return [
    ["network", `round trip ${duration(clientNs / 1e6)} client–router, ${duration(routerNs / 1e6)} router–replica`],
  ];
}

type Load = Pick<NonNullable<RunReport["simulation"]>, "loop" | "concurrency" | "speed" | "spread" | "maxOutput">;

/** Options of the scheduler, without `async-scheduling` where it has no effect: in a pipeline. */
const stepRows = ({ schedulerOptions }: RunReport["policy"], stages = 1): [string, string][] => {
  const options = Object.entries(schedulerOptions)
    .filter(([name]) => stages === 1 || name !== "async-scheduling")
    .map(([name, value]) => `${name}=${value}`);
  return options.length > 0 ? [["steps", options.join(", ")]] : [];
};

/** The options by which arrivals differ from the recorded ones. */
function loadRows({ loop, concurrency, speed, spread, maxOutput }: Load): [string, string][] {
  const load = [
    ...(concurrency === undefined ? [] : [`${counted(concurrency, "request")} in flight`]),
    ...(loop === "closed" && concurrency === undefined ? ["a turn follows the previous output (closed loop)"] : []),
    ...(speed === 1 ? [] : [`arrivals ${Number(speed.toPrecision(4))} times as fast as recorded`]),
    ...(spread === "none" ? [] : ["equal arrival times distributed"]),
    ...(maxOutput === 0 ? [] : [`max output tokens at least ${maxOutput}`]),
  ];
  return load.length > 0 ? [["load", load.join(", ")]] : [];
}

const paceLabels = { busy: "idle time skipped", real: "in real time", none: "all requests at once" } as const;

function realEngineRows({ engine, policy, target }: RunReport): [string, string][] {
  if (!engine) return [];
  const { model, parameters, threads, bits, pace, answers } = engine;
  const rounded = bits === 32 ? "" : `, ${bits}-bit weights`;
  const free = answers === "trace" ? "" : "; outputs end at the model's end token";
  return [
    [
      "engine",
      `${colors.bold(model)} (${approximate(parameters)} parameters${rounded}) on ${deviceText(backendOf(target), threads)}; ${paceLabels[pace]}${free}`,
    ],
    ...stepRows(policy),
    ...loadRows(engine),
  ];
}

/** Latency, throughput, SLO and replicas. */
export function simulationSummary(report: RunReport): string[] {
  if (!report.latency) return [];
  return [
    latencies(report),
    throughputs(report),
    offered(report),
    ...objectives(report),
    ...replicas(report),
    ...transferRows(report),
  ];
}

const latencyMeanings = {
  ttftMs: "until the first token",
  tpotMs: "per token after it",
  e2eMs: "until the last token",
  queueMs: "until admission",
} as const;

const latencyNames = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "latency", queueMs: "queue" } as const;

function latencies({ latency }: RunReport): string {
  const names = Object.keys(latencyMeanings) as (keyof typeof latencyMeanings)[];
  const columns = ["mean", "p50", "p90", "p99", "max"] as const satisfies readonly (keyof Distribution)[];
  const header = ["", ...columns, ""].map((cell) => colors.dim(cell));
  const rows = names.map((name) => {
    const values = latency?.[name];
    const cells = columns.map((column) => (values ? duration(values[column]) : "–"));
    return [latencyNames[name], ...cells, colors.dim(latencyMeanings[name])];
  });
  return `${colors.bold("Latency")}\n${aligned([header, ...rows], "lrrrrrl")}`;
}

function throughputs({ throughput, cluster }: RunReport): string {
  const { requestsPerS, inputTokensPerS, outputTokensPerS, makespanS } = throughput!;
  const busy = cluster!.replicas.reduce((sum, { utilisation }) => sum + utilisation, 0) / cluster!.replicas.length;
  const rows = [
    ["requests", `${approximate(requestsPerS)}/s`, colors.dim("served requests, over the makespan")],
    ["prompt tokens", `${approximate(inputTokensPerS)}/s`, ""],
    ["output tokens", `${approximate(outputTokensPerS)}/s`, ""],
    ["makespan", duration(makespanS * 1000), colors.dim("first arrival to last token")],
    ["busy", percent(busy), colors.dim("share of the makespan in which a step ran")],
  ];
  return `${colors.bold("Throughput")}\n${aligned(rows, "lrl")}`;
}

/** Throughput in the window of arrivals, the drain after it, and the limit that binds. */
function offered({ load }: RunReport): string {
  const { windowMs, drainMs, offeredRequestsPerS, offeredTokensPerS, servedRequestsPerS, limitedBy, waiting } = load!;
  const perS = (rate: number | null) => (rate === null ? "–" : `${approximate(rate)}/s`);
  const waits = admissionLimits.filter((limit) => waiting[limit] >= 0.01);
  const shares = waits.map((limit) => `${limitNames[limit]} ${percent(waiting[limit])}`).join(", ");
  const rows = [
    ["window", duration(windowMs), colors.dim("first to last arrival")],
    ["offered", perS(offeredRequestsPerS), colors.dim(`requests in the window; ${perS(offeredTokensPerS)} tokens`)],
    ["served", perS(servedRequestsPerS), colors.dim("requests that finished in the window")],
    ["drain", duration(drainMs), colors.dim("from the last arrival to the last token")],
    ["limit", limitNames[limitedBy], colors.dim(limitMeanings[limitedBy])],
    ...(shares === "" ? [] : [["waiting", "", colors.dim(`share of the time: ${shares}`)]]),
  ];
  const why = unsteadiness(load!);
  const note = `Not a steady state: ${why}. Latencies depend on the length of the trace.`;
  return `${colors.bold("Load")}\n${aligned(rows, "lrl")}${why === undefined ? "" : `\n  ${colors.yellow(wrapped(note, 2, 2))}`}`;
}

const objectiveNames = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "latency" } as const;

function objectives({ slo }: RunReport): string[] {
  if (!slo) return [];
  const { ttftMs, tpotMs, e2eMs, attained, goodputRequestsPerS } = slo;
  const limits = Object.entries({ TTFT: ttftMs, TPOT: tpotMs, latency: e2eMs })
    .flatMap(([name, ms]) => (ms === undefined ? [] : `${name} ≤ ${duration(ms)}`))
    .join(", ");
  const rows = (slo.objectives ?? []).map(({ metric, percentile, limitMs, valueMs, met }) => [
    `${objectiveNames[metric]} p${percentile}`,
    valueMs === null ? "unlimited" : duration(valueMs),
    `of ${duration(limitMs)}`,
    met ? colors.green("met") : colors.red("not met"),
  ]);
  return [
    wrapped(
      `${colors.bold("SLO")} ${limits}: met by ${percent(attained)} of requests; goodput ${approximate(goodputRequestsPerS)} requests/s`,
      0,
    ) + (rows.length === 0 ? "" : `\n${aligned(rows, "lrll")}`),
  ];
}

/** Most rows of the table of replicas. */
const mostRows = 16;

/** Transfers of KV to decode replicas. */
function transferRows({ transfers }: RunReport): string[] {
  if (!transfers) return [];
  const { count, tokens, reusedTokens, bytes, queueMs, delayMs } = transfers;
  const times = (each: Distribution | null) => (each ? `mean ${duration(each.mean)}, p99 ${duration(each.p99)}` : "–");
  const rows = [
    ["requests", approximate(count), ""],
    ["tokens", approximate(tokens), colors.dim(`${approximate(reusedTokens)} more were cached by the decode replica`)],
    ["bytes", `${approximate(bytes / 1e9)} GB`, ""],
    ["wait for link", times(queueMs), ""],
    ["delay", times(delayMs), colors.dim("first token to arrival of the KV")],
  ];
  return [`${colors.bold("Transfers")}\n${aligned(rows, "lll")}`];
}

function replicas({ cluster, transfers }: RunReport): string[] {
  if (!cluster || cluster.replicas.length === 1) return [];
  const { imbalance, duplicated } = cluster;
  const rows = cluster.replicas
    .slice(0, mostRows)
    .map(({ requests, hitRatioToken, utilisation, steps, role }, i) => [
      role === undefined ? String(i) : `${i} ${role}`,
      approximate(requests),
      hitRatioToken.toFixed(4),
      percent(utilisation),
      approximate(steps),
    ]);
  const header = ["replica", "requests", "hit ratio (token)", "busy", "steps"].map((cell) => colors.dim(cell));
  const more =
    cluster.replicas.length > mostRows ? `\n  … ${counted(cluster.replicas.length - mostRows, "more replica")}` : "";
  const busiest = `The busiest replica has ${imbalance.toFixed(2)} times the mean number of requests`;
  const balance = transfers
    ? `${busiest} of its pool. Hits of decode replicas are tokens that need no transfer; hits of the whole run are those of prefill replicas.`
    : `${busiest}; ${percent(duplicated)} of cached prompt blocks are also cached by another replica.`;
  return [
    `${colors.bold("Replicas")}\n${aligned([header, ...rows], "lrrrr")}${more}\n${wrapped(balance, 2, 2).replace(/^/, "  ")}`,
  ];
}
