import { counted, grouped } from "../../core/counted.ts";
import type { Input } from "../../lab/input.ts";
import { backendOf } from "../../lab/run/target.ts";
import type { DifferenceReport, StateReport, VerifyReport } from "../../lab/verify/verify-report.ts";
import { aligned, colors, wrapped } from "../output/table.ts";

/** The report as text: one line and the counts, or the divergence and the state of both sides. */
export function verifyText(input: Input, report: VerifyReport): string {
  const { difference, thereupon, policy, engine, target } = report;
  const built = input.files.length === 0 ? " (built-in)" : "";
  const { requests, shortened } = report.trace;
  const heading =
    `${colors.bold(input.name)}${built}: ${counted(requests, "request")}${shortened === 1 ? "" : `, lengths divided by ${shortened}`}; ${policy.preset ?? policy.index} with ` +
    `${policy.eviction} and ${policy.scheduler} in ${counted(policy.blocks, "block")} of ${policy.blockTokens} tokens; ` +
    `${engine.model} on ${backendOf(target).device}, and the simulator with the engine's step durations`;
  return [
    wrapped(heading, 0),
    difference ? differenceText(difference) : identicalText(report),
    ...(thereupon ? [differenceText(thereupon, "the first different decision")] : []),
    ...(report.contents ? [contentsText(report.contents)] : []),
    ...(report.times ? [timesText(report.times)] : []),
    ...(report.calibration ? [calibratedText(report.calibration)] : []),
  ].join("\n\n");
}

const signed = (share: number | null) =>
  share === null ? "" : `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;

/** A cost model's predicted times beside the engine's measured times. */
function timesText(times: NonNullable<VerifyReport["times"]>): string {
  const number = (value: number | null) =>
    value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en-US");
  const labels: Readonly<Record<string, string>> = {
    ...{ ttftMs: "TTFT, ms:", tpotMs: "TPOT, ms:", e2eMs: "latency, ms:", requestsPerS: "requests/s" },
    ...{ outputTokensPerS: "output tokens/s", makespanS: "makespan, s", hitRatio: "hit ratio, by" },
  };
  const twice = times.some(({ again }) => again !== null);
  const rows = times.map(({ figure, engine, again, noise, simulated, error }) => [
    figure.replace(/^\w+/, (name) => labels[name]),
    number(engine),
    ...(twice ? [number(again), signed(noise)] : []),
    number(simulated),
    signed(error),
  ]);
  const head = ["", "engine", ...(twice ? ["again", "noise"] : []), "simulated", "error"];
  return aligned([head.map((label) => colors.bold(label)), ...rows], twice ? "lrrrrr" : "lrrr");
}

/** Residuals of the fit: of the designed steps and of the trace's steps. */
function calibratedText({
  steps,
  residuals,
  traceResiduals,
  repeated,
}: NonNullable<VerifyReport["calibration"]>): string {
  const quartiles = ({ p25, p75 }: { readonly p25: number; readonly p75: number }) =>
    `${signed(p25)} to ${signed(p75)}`;
  const sameLoad = repeated ? `; of measured ÷ median of the same load − 1: ${quartiles(repeated)}` : "";
  return wrapped(
    `The cost model is fitted to ${counted(steps, "designed step")}, run in turn with the trace. 25th to 75th percentile of measured ÷ fitted − 1: ${quartiles(residuals.at(-1)!)} for the designed steps, ${quartiles(traceResiduals.at(-1)!)} for the trace's steps${sameLoad}`,
    0,
  );
}

function identicalText({ decisions, steps, decisionsByKind }: VerifyReport): string {
  const kinds = Object.entries(decisionsByKind)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${kind} ${grouped(count)}`);
  return [
    `${colors.green("identical")}: ${counted(decisions, "decision")} in ${counted(steps, "step")}`,
    `  ${wrapped(kinds.join(", "), 2, 2)}`,
  ].join("\n");
}

type ContentsReport = NonNullable<VerifyReport["contents"]>;

function contentsText(report: ContentsReport): string {
  const { difference, tolerance, largestErrors, sequences, blocks, hits } = report;
  const counts = `${counted(blocks, "block")} of ${counted(sequences, "sequence")} and the logits of ${counted(hits, "hit")}`;
  if (difference) return contentsDifferenceText(difference, counts);
  const recomputed = `${counts}, recomputed without the cache`;
  if (!tolerance || !largestErrors)
    return wrapped(`${colors.green("identical contents")}: ${recomputed}, bit for bit`, 2);
  const errors = (["keysAndValues", "logits"] as const).map(
    (kind) => `${Number(largestErrors[kind].toPrecision(2))} (tolerance ${tolerance[kind]})`,
  );
  return wrapped(
    `${colors.green("contents within tolerance")}: ${recomputed}; largest relative error of keys and values ${errors[0]}, of logits ${errors[1]}`,
    2,
  );
}

function contentsDifferenceText(difference: NonNullable<ContentsReport["difference"]>, counts: string): string {
  const { what, block, place, layer, token, request, step, event, context, engine, recomputed } = difference;
  const subject =
    block === null
      ? `the logits of token ${token} of request ${request}`
      : `the ${what} of token ${token} of request ${request} in layer ${layer}, physical block ${block} (its block ${place})`;
  const eventLine = ({ event, timeNs, words }: typeof difference.event) =>
    `      ${wrapped(`event ${grouped(event)}: ${timeText(timeNs)} ${words}`, 8, 6)}`;
  return [
    wrapped(`${colors.yellow("different contents")}: after step ${step}, ${subject}`, 2),
    ...(context.length > 0 ? [`    ${colors.dim("earlier events of the block")}`, ...context.map(eventLine)] : []),
    `    ${colors.bold("set by")}`,
    eventLine(event),
    `    engine ${engine}, recomputed ${recomputed}`,
    `    ${wrapped(`Up to then ${counts} were recomputed.`, 4, 4)}`,
  ].join("\n");
}

function differenceText(difference: DifferenceReport, title = "the first difference"): string {
  const { steps, event, onlyTime, requests, context, sides, what } = difference;
  const ofRequests = requests.length === 0 ? "" : `, request ${requests.join(" and ")}`;
  const where =
    what === "outcome"
      ? `in the outcome of request ${requests[0]}; all decisions are identical`
      : `after ${counted(steps, "step")} and ${counted(event, "event")}${ofRequests}${onlyTime ? "; only the time differs" : ""}`;
  const before = context.map(({ timeNs, words }) => `      ${wrapped(`${timeText(timeNs)} ${words}`, 8, 6)}`);
  return [
    wrapped(`${colors.yellow("different")}: ${title} is ${where}`, 2),
    ...(before.length > 0 ? [`    ${colors.dim("in both, just before")}`, ...before] : []),
    ...(["engine", "simulator"] as const).map((name) => sideText(name, sides[name])),
  ].join("\n");
}

function sideText(name: string, { timeNs, words, before, after }: DifferenceReport["sides"]["engine"]): string {
  const next = `${timeNs === null ? "" : `${timeText(timeNs)} `}${words}`;
  return [
    `    ${colors.bold(name)}`,
    `      ${wrapped(next, 8, 6)}`,
    ...(before && after ? [stateRows(before, after)] : []),
  ].join("\n");
}

/** In nanoseconds, because a difference may be a single nanosecond. */
const timeText = (timeNs: number) => `${grouped(timeNs)} ns`;

function stateRows(before: StateReport, after: StateReport): string {
  const rows: string[][] = [
    ["", "before", "after"],
    ["free, private", ...[before, after].map(({ blocks }) => `${blocks.free}, ${blocks.private}`)],
    ["cached: referenced, idle", ...[before, after].map(({ blocks }) => `${blocks.cachedHeld}, ${blocks.cachedIdle}`)],
    ["running", listed(before.running), listed(after.running)],
    ["waiting", listed(before.waiting), listed(after.waiting)],
    ...before.tables.map(({ request, blocks }, i) => [
      `blocks of ${request}`,
      listed(blocks),
      listed(after.tables[i].blocks),
    ]),
  ];
  return aligned(rows, "lll").replace(/^/gm, "      ");
}

/** Width of one of two columns, so that lines have at most 80 characters. */
const listWidth = 22;

/** All numbers, or the first and the last ones with their count. */
function listed(numbers: readonly number[] | null): string {
  if (numbers === null || numbers.length === 0) return "–";
  const whole = numbers.join(" ");
  if (whole.length <= listWidth) return whole;
  const shown = (ends: number) =>
    `${numbers.slice(0, ends).join(" ")} … ${numbers.slice(-ends).join(" ")} (${numbers.length})`;
  let ends = 1;
  while (shown(ends + 1).length <= listWidth) ends++;
  return shown(ends);
}
