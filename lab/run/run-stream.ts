import { basename, dirname, join, resolve } from "node:path";
import { assert } from "../../core/errors.ts";
import { Turns } from "../../core/serving/turns.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { counting } from "../control.ts";
import { RequestFacts } from "../explain/request-facts.ts";
import { checkContent, checkExplainable, checkRequests, explanationsOf, needsLog } from "../explain/run-logs.ts";
import { commandOf } from "../output/command-line.ts";
import { LogStores } from "../output/log-store.ts";
import { machineReport, runReport, setupReport, streamReport } from "../output/report.ts";
import { claimRunDirectory, TemporaryFiles } from "../output/run-directory.ts";
import { RunTables } from "../output/run-tables.ts";
import { runId, saveRun } from "../output/save.ts";
import type { TimelineFile } from "../output/timeline-file.ts";
import { TraceStream } from "../trace-stream.ts";
import { userCodeRuns } from "../user-plugins/user-code.ts";
import { BlockStream } from "./block-stream.ts";
import { blocksOf, defaultCapacity } from "./capacity.ts";
import {
  blockTokensFor,
  checkMemory,
  deviceOf,
  type Parts,
  type RunConfig,
  schedulerOptionsOn,
} from "./configuration.ts";
import type { LiveRun } from "./live.ts";
import { checkWarmup, readsArrivals, withLoad } from "./load.ts";
import { checkOperations, type OperationsFile, OperationsPlayer } from "./operations-file.ts";
import { engineCapacity, engineFrom } from "./real-engine.ts";
import { onlyBatch, type Run, runReplay, servedRequests } from "./run.ts";
import { discarded, type RunSink } from "./run-sink.ts";
import { capacityFrom, simulatedFrom } from "./simulation.ts";
import type { SimulationOptions } from "./simulation-options.ts";
import { isEngine } from "./target.ts";
import type { StreamedRun, TargetOptions } from "./trace-run.ts";

/** What is prepared before a trace is read. */
export interface Preparation {
  readonly parts: Parts;
  readonly operations: OperationsFile | undefined;
  readonly timeline: TimelineFile | undefined;
  /** The trace is kept in memory, and so are the results of its requests. */
  readonly isWhole?: boolean;
}

/** A finished run. `trace`: the trace that was run, if it was in memory. */
interface FinishedRun extends StreamedRun {
  readonly run: Run;
  readonly trace: Trace | undefined;
}

/** Runs one configuration over a trace. @throws as `runTrace`, and LateNamespaces */
export async function runStream(
  stream: TraceStream,
  options: TargetOptions,
  preparation: Preparation,
): Promise<FinishedRun> {
  const { parts } = preparation;
  const isWhole = preparation.isWhole === true || needsWhole(options, preparation);
  const reading = `reading ${stream.name}`;
  const trace = isWhole ? withLoad(await stream.whole(counting(options, reading)), options) : undefined;
  const source = trace ? TraceStream.of(trace, stream) : stream;
  const head = trace ?? (await stream.head());
  const blockTokens = blockTokensFor(head, options.blockSize, parts.preset);
  const blocks = new BlockStream(source, { ...parts, blockTokens }, (batch) => trace ?? withLoad(batch, options));
  const count = async () => {
    if (!trace) await source.count(counting(options, reading));
    await blocks.count();
  };
  try {
    if (isWhole || parts.eviction.offline || isCountedFirst(options)) await count();
    const { lengthsOnly = false } = head;
    return await runInput({ source, blocks, trace, lengthsOnly, count }, options, preparation);
  } finally {
    blocks.close();
  }
}

async function runInput(input: RunInput, options: TargetOptions, preparation: Preparation): Promise<FinishedRun> {
  const { source, blocks, trace, lengthsOnly } = input;
  const { parts, timeline } = preparation;
  const { rules = {}, repeat, save, signal } = options;
  const isWhole = trace !== undefined;
  checkContent(options, lengthsOnly);
  const { config, player, isDefaultSize } = await configured(input, options, preparation);
  checkExplainable(options, config);
  if (source.totals) checkRequests(options, source.totals.requests);
  const facts = needsLog(options) ? new RequestFacts() : undefined;
  // Without totals the number of requests is known when the trace has been read.
  const read = facts?.reading(blocks, (requestCount) => checkRequests(options, requestCount));
  // A dashboard that shows the run reads its earlier events, too.
  const logs = new LogStores({ movesEvents: options.live === undefined });

  const temporary = save && new TemporaryFiles("as" in save ? dirname(save.as) : save.below);
  let live: LiveRun | undefined;
  try {
    const tables = isWhole || !temporary ? undefined : tablesIn(temporary, config, logs);
    live = await liveRun(source, config, options);
    const doing = config.simulated ? "simulating" : config.engine ? "serving" : "replaying";
    const requests = source.totals && servedRequests(source.totals.requests, repeat);
    const run = await runReplay(read ?? blocks, config, {
      repeat,
      keepSteps: save !== undefined,
      observers: timeline ? [timeline.timeline] : [],
      advance: counting(options, doing, requests),
      ...(live && { watch: live.watch.bind(live) }),
      sink: isWhole ? undefined : (tables ?? (facts ? keepingEvents(logs) : discarded)),
      signal,
    });
    live?.saving();
    await timeline?.close();

    const { totals } = source;
    const { distinctBlocks } = blocks;
    assert(totals !== undefined && distinctBlocks !== undefined, "the run ended before its trace");
    const explained = facts && (await explanationsOf(config, { facts, stores: logs, logs: run.result.logs }, options));
    const report = runReport(streamReport(source, totals), run, player?.results, explained);
    let directory: string | undefined;
    if (save) {
      options.progress?.({ doing: "saving", done: 0 });
      const claimed = await claimRunDirectory("as" in save ? save.as : join(save.below, runId(source, report)));
      // The results of an interrupted run are saved although the signal is aborted.
      const until = report.interrupted ? undefined : signal;
      const saved = options.events ? run : { ...run, result: { ...run.result, logs: [] } };
      await saveRun(claimed, saved, report, commandOf(report, options, ruleTexts(rules)), until, tables);
      directory = claimed.path;
    }
    return {
      report,
      run,
      trace,
      traceName: source.name,
      lengthsOnly,
      series: run.simulation?.series,
      distinctBlocks,
      isDefaultSize,
      parts,
      directory,
    };
  } finally {
    live?.close();
    logs.close();
    await temporary?.remove();
  }
}

/** Whether a run needs the trace in memory. */
function needsWhole({ target, spread = "none" }: TargetOptions, { operations, timeline }: Preparation): boolean {
  return (
    // Operations apply to the prompt of any request.
    spread !== "none" || operations !== undefined || isEngine(target) || timeline !== undefined
  );
}

/** Whether all requests are read before the run, apart from a size that is a share of the distinct blocks. */
const isCountedFirst = (options: TargetOptions): boolean =>
  options.live !== undefined || options.repeat !== undefined || options.loop === "closed" || readsArrivals(options);

interface Configured {
  readonly config: RunConfig;
  readonly player: OperationsPlayer | undefined;
  /** The size of the cache is the default share of the distinct blocks. */
  readonly isDefaultSize: boolean;
}

/** The trace of a run. */
interface RunInput {
  readonly source: TraceStream;
  readonly blocks: BlockStream;
  /** The trace in memory, if the run needs it. */
  readonly trace: Trace | undefined;
  readonly lengthsOnly: boolean;
  /** Reads the whole trace, if a size depends on its distinct blocks. */
  count(): Promise<void>;
}

/** The configuration of the run. */
async function configured(
  { source, blocks, trace, count }: RunInput,
  options: TargetOptions,
  { parts, operations }: Preparation,
): Promise<Configured> {
  const { target, seed = 1, warmup = 0 } = options;
  if (source.totals) checkWarmup(warmup, source.totals.requests);
  const simulated =
    target === "sim"
      ? await simulatedFrom(options, undefined, source.totals, await turnsFrom(source, options))
      : undefined;
  const engine = isEngine(target) ? engineFrom({ ...options, target }, trace!) : undefined;
  const { blockTokens } = blocks;
  const schedulerOptions = schedulerOptionsOn(parts, deviceOf(simulated, engine));
  const base = { ...parts, schedulerOptions, blockTokens, blocks: undefined, seed };
  const given = engine ? engineCapacity(options, engine, blockTokens) : await capacityFrom(options, simulated, base);
  const { unlimited } = parts.eviction;
  const capacity = given ?? defaultCapacity;
  if (!unlimited && typeof capacity === "object" && "share" in capacity && blocks.distinctBlocks === undefined)
    await count();
  const player = operations && (await playerOf(operations, blocks));
  const config: RunConfig = {
    ...base,
    ...(player && { before: (...args) => player.before(...args) }),
    blocks: unlimited ? undefined : blocksOf(capacity, blocks.distinctBlocks ?? 0),
    schedulerOptions: { ...schedulerOptions, ...options.schedulerOption },
    simulated,
    engine,
    warmup,
    events: options.events === true || needsLog(options),
    audit: options.audit ?? false,
  };
  checkMemory(config.blocks);
  return { config, player, isDefaultSize: given === undefined && !unlimited };
}

/** The turns of a closed loop; undefined for an open one. */
export async function turnsFrom(
  stream: TraceStream,
  { loop }: Pick<SimulationOptions, "loop">,
): Promise<Turns | undefined> {
  if (loop !== "closed") return undefined;
  const turns = new Turns();
  for await (const batch of stream.batches(true)) turns.add(batch);
  return turns;
}

async function playerOf(file: OperationsFile, input: BlockStream): Promise<OperationsPlayer> {
  const { trace, blocks } = await onlyBatch(input);
  checkOperations(file, trace);
  return new OperationsPlayer(file.operations, trace, blocks);
}

/** Tables that are written while the run proceeds; after a signal no temporary file may remain of a run with plug-in code. */
export function tablesIn(temporary: TemporaryFiles, { warmup = 0 }: RunConfig, logs = new LogStores()): RunTables {
  const path = (name: string) => (userCodeRuns() ? undefined : temporary.path(name));
  return new RunTables(warmup, path, logs);
}

/** Results that are not used, but for the event logs. */
const keepingEvents = (logs: LogStores): RunSink => ({
  ...discarded,
  addEvents: (replica, log) => logs.add(replica, log),
});

export const ruleTexts = (rules: Parts["rules"]): string[] =>
  Object.entries(rules).map(([name, value]) => `${name}=${value}`);

/** The live folder of the run, if `live` is given. Repeated runs are not shown. */
async function liveRun(source: TraceStream, config: RunConfig, options: TargetOptions): Promise<LiveRun | undefined> {
  const { live, save, operations, repeat, rules = {} } = options;
  const { totals } = source;
  if (live === undefined || repeat !== undefined || totals === undefined) return undefined;
  const setup = setupReport(streamReport(source, totals), config);
  const { simulated, engine } = config;
  const id = () =>
    // The results of operations are part of a run's id.
    operations === undefined
      ? runId(source, { ...setup, ...machineReport(config), slo: (simulated ?? engine)?.slo })
      : undefined;
  const run = save && ("as" in save ? basename(resolve(save.as)) : id());
  const { preset, index, eviction, allocator, scheduler, rules: effective, blocks, blockTokens } = setup.policy;
  const { LiveRun } = await import("./live.ts");
  return await LiveRun.open(
    live.runs,
    {
      ...{ command: commandOf(setup, options, ruleTexts(rules)), run: run ?? null, trace: source.name },
      ...{ requests: totals.requests, target: options.target },
      ...{ preset, index, eviction, allocator, scheduler, victims: effective.victims, blocks, blockTokens },
    },
    live.warn,
    { warmup: config.warmup ?? 0, slo: (simulated ?? engine)?.slo },
  );
}
