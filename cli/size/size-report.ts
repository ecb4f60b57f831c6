import { counted, grouped } from "../../core/counted.ts";
import { duration, percent } from "../../lab/output/numbers.ts";
import type { Sized } from "../../lab/size/size.ts";
import type { Gain, ShareWithin, SizeAnswer, SizeDocument, SizedCluster } from "../../lab/size/size-document.ts";
import { metricNames, objectiveText } from "../../lab/size/size-text.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** The answer in sentences, what limits it, and the table of clusters. */
export function sizeText({ report, name }: Sized): string {
  const { trace, model, slo, load, answer } = report;
  const built = trace.files.length === 0 ? " (built-in)" : "";
  const heading = wrapped(
    `${colors.bold(name)}${built}: ${counted(trace.requests, "request")}${loadText(load)}; ${model}; SLO ${objectiveText(slo)}`,
    0,
  );
  const parts = answer ? answerParts(report, answer) : noAnswerParts(report);
  return [heading, ...parts, clusterTable(report), ...notes(report)].join("\n\n");
}

function loadText({ requestsPerS, concurrency, speed, loop }: SizeDocument["load"]): string {
  if (concurrency !== undefined) return `, ${grouped(concurrency)} in flight`;
  if (requestsPerS !== null) return ` at ${requestsPerS}/s`;
  const faster = speed === 1 ? "" : `, ${speed} times as fast as recorded`;
  return `${faster}${loop === "closed" ? ", closed loop" : ""}`;
}

function answerParts(report: SizeDocument, answer: SizeAnswer): string[] {
  const { cluster, within } = answer;
  const { currency } = report.prices;
  const first =
    `${colors.bold(`Use ${clusterText(cluster)}`)}: ${costText(cluster, currency)}. ` +
    `${cluster.objectives.map(objectiveValue).join(", ")}; hit ratio ${percent(cluster.hitRatio)}, ` +
    `${cluster.goodputRequestsPerS.toPrecision(3)} requests/s within all limits.`;
  const blocks = `Each replica has ${counted(cluster.blocks ?? 0, "block")} of ${counted(cluster.blockTokens, "token")} (${gib(cluster.cacheBytesPerGpu)} on each GPU).`;
  return [
    wrapped(`${first} ${blocks}`, 0),
    section("Certainty", within.map(withinText)),
    section("Gain", gainText(answer.gain, cluster, currency)),
    section("Limits", limitText(answer, currency)),
  ];
}

function noAnswerParts({ grid, clusters, prices }: SizeDocument): string[] {
  const best = [...clusters].sort((one, other) => worstOf(one) - worstOf(other))[0];
  const none = `${colors.bold("No cluster meets the SLO")} with up to ${counted(grid.maxGpus, "GPU")}.`;
  if (best === undefined)
    return [
      wrapped(
        `${none} One request alone misses it on every GPU of the list, with an unlimited cache: more replicas do not help; faster GPUs or --tp do.`,
        0,
      ),
    ];
  return [
    wrapped(
      `${none} The closest is ${clusterText(best)} at ${costText(best, prices.currency)}: ${best.objectives.map(objectiveValue).join(", ")}.`,
      0,
    ),
  ];
}

const worstOf = ({ objectives }: SizedCluster) =>
  Math.max(...objectives.map(({ valueMs, limitMs }) => (valueMs ?? Number.POSITIVE_INFINITY) / limitMs));

const section = (title: string, sentences: readonly string[]) =>
  `${colors.bold(title)}\n${sentences.map((sentence) => `  ${wrapped(sentence, 2, 2)}`).join("\n")}`;

/** `2 × h200, vllm, lru, prefix-affinity router`. */
function clusterText({ gpu, gpus, replicas, tensorParallel, preset, eviction, router }: SizedCluster): string {
  const divided = tensorParallel > 1 ? ` (${counted(replicas, "replica")} with TP ${tensorParallel})` : "";
  return `${gpus} × ${gpu}${divided} with ${preset}, ${eviction} eviction${router === null ? "" : `, router ${router}`}`;
}

function costText({ costPerHour, costPerMillionTokens }: SizedCluster, currency: string): string {
  const perTokens =
    costPerMillionTokens === null ? "" : ` (${money(costPerMillionTokens, currency)} per million tokens at this load)`;
  return `${money(costPerHour, currency)} per hour${perTokens}`;
}

function money(value: number, currency: string): string {
  const digits = value >= 0.0995 ? 2 : 3;
  return `${currency === "USD" ? "$" : `${currency} `}${value.toFixed(digits)}`;
}

const objectiveValue = ({ metric, percentile, valueMs, limitMs }: SizedCluster["objectives"][number]) =>
  `P${percentile} ${metricNames[metric]} ${valueMs === null ? "unlimited" : duration(valueMs)} of ${duration(limitMs)}`;

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

/** `97.0 ± 1.2 % of requests are within the limit of TTFT; 95 % are required`. */
function withinText({ metric, share, required, interval }: ShareWithin): string {
  const [low, high] = interval ? [Math.max(0, interval.low), Math.min(1, interval.high)] : [share, share];
  const range = interval ? ` (95 % interval: ${exact(low)} to ${exact(high)})` : "";
  const doubt = low < required ? " The interval includes values that miss it: one more GPU is safer." : "";
  return `${exact(share)}${range} of requests are within the limit of ${metricNames[metric]}; ${exact(required)} are required.${doubt}`;
}

const exact = (share: number) => `${Number((share * 100).toFixed(2))} %`;

function gainText({ baseline, hitRatio, cheapestBaseline }: Gain, cluster: SizedCluster, currency: string): string[] {
  if (baseline === null || hitRatio === null)
    return [
      "It is the baseline, lru with round-robin: no other policy or router of the lists is cheaper or has a larger margin.",
    ];
  const { value, interval } = hitRatio;
  const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;
  const range = interval ? ` ± ${(((interval.high - interval.low) / 2) * 100).toFixed(1)}` : "";
  const isNoise = interval !== undefined && interval.low <= 0 && interval.high >= 0;
  const same =
    `Over lru with round-robin on the same GPUs: hit ratio ${points(value)}${range} percentage points` +
    `${isNoise ? " (within noise)" : ""}; there ${baseline.objectives.map(objectiveValue).join(", ")}.`;
  return [same, baselineCost(cheapestBaseline, cluster, currency)];
}

function baselineCost(needed: SizedCluster | null, { costPerHour, gpus }: SizedCluster, currency: string): string {
  if (needed === null) return "lru with round-robin misses the SLO with any number of these GPUs.";
  if (needed.gpus === gpus) return "lru with round-robin meets the SLO with the same GPUs, too: the cost is the same.";
  return (
    `lru with round-robin needs ${needed.gpus} × ${needed.gpu}, ${money(needed.costPerHour, currency)} per hour: ` +
    `the choice saves ${money(needed.costPerHour - costPerHour, currency)} per hour, ${percent(1 - costPerHour / needed.costPerHour)}.`
  );
}

const limitSentences = {
  compute: "compute limits: neither an unlimited cache nor twice max_num_seqs changes much",
  memory: "memory limits: requests wait for blocks of the KV cache",
  cache: "the cache limits: with an unlimited one there would be more hits",
  max_num_seqs: "max_num_seqs limits: twice as many running requests change the most",
} as const;

function limitText({ cluster, limits, oneReplicaMore, moreMemory }: SizeAnswer, currency: string): string[] {
  const { of, limit, unlimitedCache, twiceMaxNumSeqs } = limits;
  const fewer =
    cluster.replicas > 1 ? `With ${of.gpus} × ${of.gpu}: ${of.objectives.map(objectiveValue).join(", ")}. ` : "";
  const where = cluster.replicas > 1 ? "There " : "";
  const tried = [
    `unlimited cache: ${effect(of, unlimitedCache)}`,
    ...(twiceMaxNumSeqs ? [`twice max_num_seqs: ${effect(of, twiceMaxNumSeqs)}`] : []),
  ].join("; ");
  const more =
    oneReplicaMore === null
      ? []
      : [
          `${counted(oneReplicaMore.gpus - cluster.gpus, "GPU")} more (${money(oneReplicaMore.costPerHour, currency)} per hour): ${effect(cluster, oneReplicaMore)}.`,
        ];
  const sentence = limitSentences[limit];
  return [
    `${fewer}${where}${where === "" ? sentence[0].toUpperCase() + sentence.slice(1) : sentence} (${tried}).`,
    ...more,
    `16 GiB more for the cache on each GPU: ${effect(cluster, moreMemory)}.`,
  ];
}

/** How objectives and hit ratio differ. */
function effect(from: SizedCluster, to: SizedCluster): string {
  const times = to.objectives.map(({ metric, percentile, valueMs }, i) => {
    const before = from.objectives[i].valueMs;
    const text = (ms: number | null) => (ms === null ? "unlimited" : duration(ms));
    const [old, now] = [text(before), text(valueMs)];
    return `P${percentile} ${metricNames[metric]} ${old === now ? `stays ${now}` : `${old} → ${now}`}`;
  });
  const [old, now] = [percent(from.hitRatio), percent(to.hitRatio)];
  return [...times, `hit ratio ${old === now ? `stays ${now}` : `${old} → ${now}`}`].join(", ");
}

/** Most rows of the table. */
const mostRows = 16;

/** The Pareto front and the answer, the cheapest first. */
function clusterTable({ clusters, prices, slo, grid, simulations }: SizeDocument): string {
  const front = clusters.filter(({ onFront, chosen }) => onFront || chosen);
  const nearest = front.findIndex(({ chosen }) => chosen);
  const from = Math.max(0, Math.min(nearest - mostRows / 2, front.length - mostRows));
  const shown = front.slice(from, from + mostRows);
  const metrics = (["ttftMs", "tpotMs", "e2eMs"] as const).filter((metric) => slo[metric] !== undefined);
  const hasPresets = new Set(clusters.map(({ preset }) => preset)).size > 1;
  const presetCell = (cell: string) => (hasPresets ? [cell] : []);
  const headers = [
    [
      "",
      "",
      "",
      ...presetCell(""),
      "",
      "",
      ...metrics.map((metric) => `P${slo.percentiles?.[metric]}`),
      "",
      "good-",
      "hit",
    ],
    [
      ...["", `${prices.currency}/h`, "GPUs", ...presetCell("preset"), "eviction", "router"],
      ...[...metrics.map((metric) => metricNames[metric]), "SLO", "put/s", "ratio"],
    ],
  ].map((cells) => cells.map((cell) => colors.bold(cell)));
  const rows = shown.map((cluster) => [
    cluster.chosen ? colors.green("→") : "",
    cluster.costPerHour.toFixed(2),
    `${cluster.gpus} × ${cluster.gpu}${cluster.tensorParallel > 1 ? ` TP ${cluster.tensorParallel}` : ""}`,
    ...presetCell(cluster.preset),
    cluster.eviction,
    cluster.router ?? "–",
    ...metrics.map((metric) => limitedValue(cluster, metric)),
    cluster.met ? colors.green("met") : colors.red("missed"),
    cluster.goodputRequestsPerS.toPrecision(3),
    percent(cluster.hitRatio),
  ]);
  const left = front.length > shown.length ? `; ${counted(front.length - shown.length, "row")} more in --json` : "";
  const title = `${colors.bold("Pareto front")} of cost, P99 TTFT, goodput and hit ratio, of ${counted(clusters.length, "simulated cluster")}${left}`;
  const count =
    `${counted(simulations.search, "simulation")} to find the answer among ${counted(grid.clusters, "cluster")} ` +
    `(${percent(simulations.search / grid.clusters)}), ${simulations.explanation} to explain it.`;
  return `${wrapped(title, 0)}\n${aligned([...headers, ...rows], `lrlll${hasPresets ? "l" : ""}${"r".repeat(metrics.length)}lrr`)}\n${count}`;
}

function limitedValue({ objectives }: SizedCluster, metric: (typeof objectives)[number]["metric"]): string {
  const value = objectives.find((each) => each.metric === metric)?.valueMs ?? null;
  return value === null ? "unlimited" : duration(value);
}

function notes({ prices, excluded, answer, costNotes }: SizeDocument): string[] {
  const used = Object.entries(prices.gpus).map(
    ([gpu, { perHour, source }]) =>
      `${gpu} ${money(perHour, prices.currency)}${prices.file === null ? ` (${source})` : ""}`,
  );
  const from = prices.file === null ? "assumptions; --prices FILE replaces them" : `from ${prices.file}`;
  const left = excluded.map(
    ({ gpu, tensorParallel, reason }) => `Left out: ${gpu} with TP ${tensorParallel}: ${reason}.`,
  );
  const unsteady =
    answer && !answer.cluster.steady
      ? ["The run is not a steady state: the trace is short for this load, so that latencies depend on its length."]
      : [];
  return [
    [
      ...unsteady.map((text) => colors.yellow(text)),
      `Prices per GPU and hour: ${used.join(", ")}: ${from}.`,
      ...left,
      ...costNotes,
    ]
      .map((text) => wrapped(text, 0))
      .join("\n"),
  ];
}
