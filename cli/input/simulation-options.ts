import { type Command, Option } from "commander";
import { InputError } from "../../core/errors.ts";
import type { KvLink } from "../../core/serving/disaggregation.ts";
import type { Slo, SloMetric } from "../../core/serving/metrics.ts";
import type { RoundTrips } from "../../core/serving/network.ts";
import { backendNames } from "../../engine/backends.ts";
import { limitNames, roundTripNames, units } from "../../lab/output/command-line.ts";
import { outputLengths, paces } from "../../lab/run/paces.ts";
import type { NamedNumbers, SpeculationOptions } from "../../lab/run/simulation-options.ts";
import { expertExchanges } from "../../sim/cost/expert-group.ts";
import { bitsOption, commaList, decimalNumber, path, wholeNumber } from "./options.ts";

const positive = (name: string) => (text: string) => {
  const value = decimalNumber(name)(text);
  if (value > 0) return value;
  throw new InputError(`${name} is ${text}, expected a number above 0`);
};
const replicaCount = wholeNumber("--replicas", 1, 4096);
const poolSize = (option: string) => wholeNumber(option, 1, 2048);

/** Adds the options of simulations and of real engines. */
export function addSimulationOptions(command: Command): Command {
  return addCommonOptions(command)
    .option("--replicas <N>", "replicas, each with its own cache (default: 1)", replicaCount)
    .option("--router <NAME>", "router, or a plug-in file (default: round-robin)")
    .option("--rate <N>", "mean requests per second, instead of --speed", positive("--rate"))
    .option("--timeline <FILE>", "write a timeline of steps and requests for Perfetto", path("--timeline", "a file"))
    .optionsGroup("Options:");
}

/** The same for `compare`, where several options take comma-separated lists. */
export function addSimulationLists(command: Command): Command {
  const listOf =
    <T>(option: string, parse: (text: string) => T) =>
    (text: string) =>
      commaList(option, text).map(parse);
  return addCommonOptions(command)
    .option("--replicas <NS>", "replicas, each with its own cache (default: 1)", listOf("--replicas", replicaCount))
    .option(
      "--router <NAMES>",
      "routers, or plug-in files (default: round-robin)",
      listOf("--router", (name) => name),
    )
    .option("--rate <NS>", "mean requests per second, instead of --speed", listOf("--rate", positive("--rate")))
    .optionsGroup("Options:");
}

/** The options that all clusters of `kvlab size` have in common. */
export function addSizeLoadOptions(command: Command): Command {
  return command
    .option("--model <NAME>", "model, or its config.json (default: llama-3.1-8b)")
    .option("--kv-dtype <TYPE>", "data type of keys and values (default: the model's)")
    .option("--gpu-memory <SHARE>", "share of GPU memory to use (default: 0.9)", share("--gpu-memory"))
    .option(
      "--scheduler-option <NAME=N>",
      "option of the scheduler, such as max-num-seqs=64 (repeatable)",
      namedNumber("--scheduler-option"),
    )
    .option("--efficiency <NAME=N>", "efficiency factor of the roofline (repeatable)", namedNumber("--efficiency"))
    .option("--network <RTTS>", "round trips, such as client=2ms,router=0.2ms", network)
    .option("--rate <N>", "mean requests per second, instead of --speed", positive("--rate"))
    .option("--speed <N>", "arrive N times as fast as recorded (default: 1)", positive("--speed"))
    .option(
      "--concurrency <N>",
      "requests in flight, instead of recorded arrivals",
      wholeNumber("--concurrency", 1, 1e6),
    )
    .addOption(
      new Option("--loop <LOOP>", "open: recorded arrivals; closed: a turn follows the previous output").argParser(
        loop,
      ),
    )
    .addOption(new Option("--spread <HOW>", "distribute equal arrival times: none, or uniform").argParser(spread))
    .option("--max-output <N>", "raise each request's max output tokens to at least N", wholeNumber("--max-output", 1));
}

/** @throws InputError naming the commands that accept a list */
function tensorParallel(text: string): number {
  if (!text.includes(",")) return wholeNumber("--tp", 1, 1024)(text);
  throw new InputError(
    `--tp is "${text}", expected one number; kvlab size and a vary of kvlab sweep (tp: [1, 2, 4]) compare several`,
  );
}

function addCommonOptions(command: Command): Command {
  return command
    .optionsGroup("Simulator (--target sim):")
    .option("--model <NAME>", "model, or its config.json (default: llama-3.1-8b); real engine: see below")
    .option("--gpu <NAME>", "GPU (default: h200)")
    .option("--tp <N>", "tensor-parallel GPUs per replica (default: 1)", tensorParallel)
    .option("--dp <N>", "data-parallel replicas of one vLLM server (default: 1)", wholeNumber("--dp", 1, 1024))
    .option("--ep", "divide whole experts among the GPUs of --tp and --dp")
    .addOption(
      new Option("--expert-exchange <HOW>", "tokens between --dp replicas: gather, or all-to-all").argParser(exchange),
    )
    .option(
      "--pp <N>",
      "pipeline parallelism: stages of layers, each on its own GPUs, and as many batches in flight",
      wholeNumber("--pp", 1, 1024),
    )
    .option("--kv-dtype <TYPE>", "data type of keys and values (default: the model's)")
    .option("--gpu-memory <SHARE>", "share of GPU memory to use (default: 0.9)", share("--gpu-memory"))
    .option("--capacity <SIZE>", "cache memory, such as 16GiB, instead of --blocks", bytes("--capacity", 1))
    .option("--swap-space <SIZE>", "host memory for swapped-out blocks (default: 4GiB)", bytes("--swap-space", 0))
    .option(
      "--cost <FILE>",
      "step times: profile:NAME, roofline, fitted coefficients, a run, a plug-in file (default: a profile if there is one)",
      path("--cost", "a file"),
    )
    .option(
      "--efficiency <NAME=N>",
      "efficiency factor of the roofline model (repeatable)",
      namedNumber("--efficiency"),
    )
    .option(
      "--scheduler-option <NAME=N>",
      "option of the scheduler, such as max-num-seqs=64 (repeatable)",
      namedNumber("--scheduler-option"),
    )
    .option("--router-option <NAME=N>", "option of the router (repeatable)", namedNumber("--router-option"))
    .option(
      "--prefill-replicas <N>",
      "replicas for prefill only, instead of --replicas",
      poolSize("--prefill-replicas"),
    )
    .option("--decode-replicas <N>", "replicas for decode only", poolSize("--decode-replicas"))
    .option("--decode-router <NAME>", "router of the decode replicas (default: --router)")
    .option("--kv-link <LINK>", "link that transfers KV to decode replicas (default: 50GB/s,10us)", kvLink)
    .option("--speculate <DRAFT>", "speculative decoding, such as tokens=4,acceptance=0.7,draft=0.1", speculation)
    .option("--network <RTTS>", "round trips client to router to replica, such as client=2ms,router=0.2ms", network)
    .addOption(
      new Option("--loop <LOOP>", "open: recorded arrivals; closed: a turn follows the previous output").argParser(
        loop,
      ),
    )
    .option(
      "--concurrency <N>",
      "requests in flight, instead of recorded arrivals",
      wholeNumber("--concurrency", 1, 1e6),
    )
    .option("--speed <N>", "arrive N times as fast as recorded (default: 1)", positive("--speed"))
    .option("--max-output <N>", "raise each request's max output tokens to at least N", wholeNumber("--max-output", 1))
    .addOption(
      new Option("--spread <HOW>", "distribute equal arrival times: none, or uniform until the next arrival").argParser(
        spread,
      ),
    )
    .option(
      "--slo <LIMITS>",
      "latency limits, such as ttft=500ms,tpot=50ms,e2e=10s; ttft=500ms:p99 for the percentile",
      slo,
    )
    .optionsGroup(`Real engine (--target ${backendNames.join(" or ")}; --model: folder or random:NAME):`)
    .option("--threads <N>", "threads of the engine's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .addOption(bitsOption())
    .addOption(
      new Option("--pace <PACE>", "busy: idle time skipped; real: as recorded; none: all at once").argParser(pace),
    )
    .addOption(
      new Option("--output-lengths <FROM>", "trace: as recorded; free: until the model's end token").argParser(lengths),
    )
    .option("--fold", "map token ids outside the model's vocabulary into it")
    .optionsGroup("Simulator (--target sim):");
}

function oneOf<T extends string>(option: string, values: readonly T[]) {
  return (text: string): T => {
    const found = values.find((value) => value === text);
    if (found) return found;
    throw new InputError(`${option} is "${text}", expected ${values.join(" or ")}`);
  };
}

const exchange = oneOf("--expert-exchange", expertExchanges);
const loop = oneOf("--loop", ["open", "closed"]);
const spread = oneOf("--spread", ["none", "uniform"]);
const pace = oneOf("--pace", paces);
const lengths = oneOf("--output-lengths", outputLengths);

export function share(option: string) {
  return (text: string): number => {
    const value = decimalNumber(option)(text);
    if (value > 0 && value <= 1) return value;
    throw new InputError(`${option} is ${text}, expected a share above 0, up to 1`);
  };
}

/** NAME=NUMBER, each name once. */
export function namedNumber(option: string) {
  return (text: string, before: NamedNumbers = {}): NamedNumbers => {
    const [, name, value] = /^([a-zA-Z][\w-]*)=(.+)$/.exec(text) ?? [];
    if (name === undefined) throw new InputError(`${option} is "${text}", expected NAME=NUMBER`);
    if (Object.hasOwn(before, name)) throw new InputError(`${option} ${name} is given twice, expected once`);
    return { ...before, [name]: decimalNumber(`${option} ${name}`)(value) };
  };
}

/** `16GiB`, `40GB`; without a unit only 0. @throws InputError */
export function bytes(option: string, least: 0 | 1) {
  return (text: string): number => {
    const [, number, unit] = /^(\d+(?:\.\d+)?) ?([KMGT]i?B)$/i.exec(text === "0" ? "0kB" : text) ?? [];
    const value = Math.floor(Number(number) * (units[unit?.toLowerCase() ?? ""] ?? Number.NaN));
    if (value >= least && value <= Number.MAX_SAFE_INTEGER) return value;
    throw new InputError(`${option} is "${text}", expected a size such as 16GiB or 500MB`);
  };
}

const nsOf: Readonly<Record<string, number>> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

/** A time such as 0.2ms, in whole ns; undefined if it is not one. */
function time(text: string): number | undefined {
  const [, number, unit] = /^(\d+(?:\.\d+)?) ?(ns|us|ms|s)$/.exec(text.trim()) ?? [];
  const value = Math.round(Number(number) * nsOf[unit ?? "ns"]);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** `tokens=4,acceptance=0.7,draft=0.1`. @throws InputError */
function speculation(text: string): SpeculationOptions {
  const given = new Map<string, string>();
  for (const part of text.split(",")) {
    const [name, value = ""] = part.split("=", 2).map((piece) => piece.trim());
    if (!["tokens", "acceptance", "draft"].includes(name) || value === "")
      throw new InputError(`--speculate has "${part}", expected tokens=N, acceptance=SHARE and draft=SHARE or a model`);
    if (given.has(name)) throw new InputError(`--speculate has ${name} twice`);
    given.set(name, value);
  }
  const required = (name: string) => {
    const value = given.get(name);
    if (value !== undefined) return value;
    throw new InputError(`--speculate has no ${name}, expected one, such as tokens=4,acceptance=0.7,draft=0.1`);
  };
  const tokens = wholeNumber("--speculate tokens", 1, 64)(required("tokens"));
  const acceptance = decimalNumber("--speculate acceptance")(required("acceptance"));
  if (!(acceptance >= 0 && acceptance <= 1))
    throw new InputError(`--speculate acceptance is ${acceptance}, expected a share from 0 to 1`);
  const draft = given.get("draft");
  const share = Number(draft);
  if (share < 0) throw new InputError(`--speculate draft is ${draft}, expected a share from 0, or a model`);
  return { tokens, acceptance, ...(draft !== undefined && { draft: Number.isFinite(share) ? share : draft }) };
}

/** `50GB/s,10us`; the latency may be left out. @throws InputError */
function kvLink(text: string): KvLink {
  const [rate, latency, ...more] = text.split(",");
  const [, number, unit] = /^ *(\d+(?:\.\d+)?) ?([KMGT]i?B)\/s *$/i.exec(rate) ?? [];
  const bytesPerS = Number(number) * (units[unit?.toLowerCase() ?? ""] ?? Number.NaN);
  const latencyNs = latency === undefined ? 0 : time(latency);
  if (bytesPerS > 0 && latencyNs !== undefined && more.length === 0) return { bytesPerS, latencyNs };
  throw new InputError(`--kv-link is "${text}", expected a bandwidth and a latency, such as 50GB/s,10us`);
}

/** `client=2ms,router=0.2ms`. @throws InputError */
function network(text: string): Partial<RoundTrips> {
  const trips: { -readonly [Name in keyof RoundTrips]?: number } = {};
  for (const part of text.split(",")) {
    const [name, value = ""] = part.split("=", 2).map((piece) => piece.trim());
    const ns = time(value);
    if (!Object.hasOwn(roundTripNames, name) || ns === undefined)
      throw new InputError(`--network has "${part}", expected client or router with a time, such as client=2ms`);
    const key = roundTripNames[name as keyof typeof roundTripNames];
    if (trips[key] !== undefined) throw new InputError(`--network has ${name} twice`);
    trips[key] = ns;
  }
  return trips;
}

/** `ttft=500ms,tpot=50ms`; with percentiles `ttft=500ms:p99`. @throws InputError */
export function slo(text: string): Slo {
  const limits: Partial<Record<SloMetric, number>> = {};
  const percentiles: Partial<Record<SloMetric, number>> = {};
  for (const part of text.split(",")) {
    const [limit, percentile, ...more] = part.split(":");
    const [, name, number, unit] = /^ *(\w+) *= *(\d+(?:\.\d+)?(?:e[+-]?\d+)?) *(ms|s) *$/.exec(limit) ?? [];
    if (name === undefined || !Object.hasOwn(limitNames, name) || more.length > 0)
      throw new InputError(`--slo has "${part}", expected ttft, tpot or e2e with a time, such as ttft=500ms`);
    const key = limitNames[name as keyof typeof limitNames];
    if (limits[key] !== undefined) throw new InputError(`--slo has ${name} twice`);
    const value = Number(number) * (unit === "s" ? 1000 : 1);
    if (value <= 0) throw new InputError(`--slo has ${name}=${number}${unit}, expected more than 0`);
    limits[key] = value;
    if (percentile !== undefined) percentiles[key] = percentileOf(percentile, part);
  }
  return { ...limits, ...(Object.keys(percentiles).length > 0 && { percentiles }) };
}

/** `p99`, `p99.9`. @throws InputError */
function percentileOf(text: string, part: string): number {
  const value = Number(/^ *p(\d+(?:\.\d+)?) *$/.exec(text)?.[1]);
  if (value > 0 && value <= 100) return value;
  throw new InputError(`--slo has "${part}", expected a percentile above p0, up to p100, such as ttft=500ms:p99`);
}
