import type { KvLink } from "../../core/serving/disaggregation.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { RoundTrips } from "../../core/serving/network.ts";
import type { TraceReading } from "../input.ts";
import { nameOf, optionNames, type SimulationOptions, type SpeculationOptions } from "../run/simulation-options.ts";
import type { TraceRunOptions } from "../run/trace-run.ts";
import type { RunSetup } from "./save.ts";

/** Options of the event log. */
type LogOption = "operations" | "events" | "explain" | "explainTop" | "residency";

/** The command that reproduces this report, with all defaults written out, because they may change. */
export function commandOf(
  report: RunSetup,
  given: TraceReading & SimulationOptions & Pick<TraceRunOptions, LogOption>,
  rules: readonly string[],
): string {
  const { operations } = given;
  const { trace, policy, target, seed, warmup } = report;
  const args = ["kvlab", "replay", ...(trace.files.length === 0 ? ["example"] : trace.files)];
  const add = (option: string, value: string | number | undefined) => {
    if (value !== undefined) args.push(`--${option}`, String(value));
  };
  const { format = trace.format } = given;
  add("format", trace.files.length === 0 ? undefined : nameOf(format));
  add("unit", given.unit);
  add("time-unit", given.timeUnit);
  add("tokenizer", given.tokenizer);
  add("limit", given.limit);
  add("preset", policy.preset ?? undefined);
  add("index", policy.indexFile ?? policy.index);
  add("eviction", policy.evictionFile ?? policy.eviction);
  add("allocator", policy.allocatorFile ?? policy.allocator);
  add("scheduler", policy.schedulerFile ?? policy.scheduler);
  for (const rule of rules) add("rule", rule);
  if (target !== "cache") add("target", target);
  // The number of blocks replaces these options.
  const { capacity: _, gpuMemory: __, ...others } = given;
  const { schedulerOption, maxOutput } = others;
  const withoutClock = { ...(schedulerOption && { schedulerOption }), ...(maxOutput && { maxOutput }) };
  args.push(...givenArguments(target === "cache" ? withoutClock : others));
  add("blocks", policy.blocks ?? "unlimited");
  add("block-size", policy.blockTokens);
  add("warmup", warmup === 0 ? undefined : warmup);
  add("seed", seed);
  add("operations", operations);
  if (given.events) args.push("--events");
  for (const request of given.explain ?? []) add("explain", request);
  add("explain-top", given.explainTop);
  if (given.residency) args.push("--residency");
  return args.map(quoted).join(" ");
}

/** An argument, quoted for a shell if necessary. */
export const quoted = (argument: string) =>
  /^[\w./:=%+@,-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;

/** The given options as arguments of a command line. */
function givenArguments(options: SimulationOptions): string[] {
  return (Object.entries(optionNames) as [keyof SimulationOptions, string][]).flatMap(([key, name]) => {
    const value = options[key];
    if (value === undefined) return [];
    if (key === "cost" || key === "router" || key === "decodeRouter") return [`--${name}`, nameOf(options[key]!)];
    if (key === "slo") return [`--${name}`, sloText(options.slo!)];
    if (key === "kvLink") return [`--${name}`, linkText(options.kvLink!)];
    if (key === "speculate") return [`--${name}`, speculationText(options.speculate!)];
    if (key === "network") return [`--${name}`, networkText(options.network!)];
    if (key === "capacity" || key === "swapSpace") return [`--${name}`, `${(value as number) / units["kib"]}KiB`];
    if (typeof value !== "object") return [`--${name}`, String(value)];
    return Object.entries(value).flatMap(([each, number]) => [`--${name}`, `${each}=${number}`]);
  });
}

const sloText = (limits: Slo) =>
  Object.entries(limitNames)
    .flatMap(([name, key]) => {
      const percentile = limits.percentiles?.[key];
      return limits[key] === undefined
        ? []
        : `${name}=${limits[key]}ms${percentile === undefined ? "" : `:p${percentile}`}`;
    })
    .join(",");

const linkText = ({ bytesPerS, latencyNs }: KvLink) => `${bytesPerS / units["mb"]}MB/s,${latencyNs}ns`;

const speculationText = (given: SpeculationOptions) =>
  Object.entries(given)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");

const networkText = (trips: Partial<RoundTrips>) =>
  Object.entries(roundTripNames)
    .flatMap(([name, key]) => (trips[key] === undefined ? [] : `${name}=${trips[key]}ns`))
    .join(",");

/** Round trips of `--network` by their names in the option. */
export const roundTripNames = { client: "clientNs", router: "routerNs" } as const;

/** Limits of `--slo` by their names in the option. */
export const limitNames = { ttft: "ttftMs", tpot: "tpotMs", e2e: "e2eMs" } as const;

/** Bytes of the units of sizes. */
export const units: Readonly<Record<string, number>> = {
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
};
