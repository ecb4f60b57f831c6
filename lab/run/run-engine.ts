import { InputError } from "../../core/errors.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { BusyClock, stopwatch, WallClock } from "../../engine/clock.ts";
import type { ContentsCheck } from "../../engine/contents/contents-check.ts";
import { checkContents, Engine } from "../../engine/engine.ts";
import type { Executor } from "../../engine/executor.ts";
import type { TokenChoice } from "../../engine/tokens.ts";
import { Interrupted, stoppingAt, throwIfInterrupted, yieldToEvents } from "../control.ts";
import { pluginHost } from "../user-plugins/host.ts";
import { userCodeRuns } from "../user-plugins/user-code.ts";
import type { RunConfig } from "./configuration.ts";
import { poolBytesPerToken, type RealEngine } from "./real-engine.ts";
import { type ServedResult, type ServingOptions, servedResult } from "./served-result.ts";
import { withFile } from "./slices.ts";
import type { Turn } from "./turns.ts";

/**
 * Opens the engine's model with a pool of `blockCount` blocks.
 *
 * @throws InputError and ExecutorError as the backend's `open`
 */
export function openPool(
  { backend, loaded, threads, bits }: RealEngine,
  blockCount: number,
  blockTokens: number,
): Promise<Executor> {
  return backend.open({ model: loaded, blockCount, blockTokens, bits, ...(threads && { threads }) });
}

export interface EngineOptions extends ServingOptions {
  /** A pool to use instead of a new one; it is not closed. */
  readonly pool?: Executor;
  readonly turn?: Turn | undefined;
  /** Compares contents after each step. Its time is excluded from the engine's clock, unless that is the wall clock. */
  readonly contents?: ContentsCheck | undefined;
}

/**
 * Serves a trace with a real model, in real time.
 *
 * An aborted signal ends the run after a step; the result then covers the finished requests. With a `turn`, other engines run
 * between its steps; their time is excluded from its clock, unless that is the wall clock.
 *
 * @throws Interrupted if no request had finished, and InputError if the model cannot serve the trace
 */
export async function runEngine(
  trace: Trace,
  blocks: BlockColumns,
  config: RunConfig,
  engine: RealEngine,
  { keepSteps, observers = [], advance = () => {}, watch, pool, turn, contents, signal }: EngineOptions,
): Promise<{ readonly result: ServedResult; readonly wallMs: number }> {
  const { loaded, pace, loop, concurrency, speed, slo } = engine;
  const blockCount = checkServable(trace, blocks, config, engine);
  const sent = pace === "none" ? { ...trace, arrivalNs: new Float64Array(trace.requestCount) } : trace;
  const { blockTokens } = config;
  throwIfInterrupted(signal);
  const executor = pool ?? (await openPool(engine, blockCount, blockTokens));
  try {
    const steps = keepSteps ? new StepTable() : undefined;
    const clock = pace === "real" ? new WallClock() : new BusyClock();
    const running = new Engine(sent, blocks, {
      ...config,
      executor: withSignals(executor),
      clock,
      vocabulary: loaded.config.vocabulary,
      choice: choiceOf(engine),
      hostBlocks: Math.floor(engine.swapSpace / (poolBytesPerToken(engine) * blockTokens)),
      arrivals: { loop, speed, concurrency },
      observers: [...(steps ? [steps] : []), ...(contents ? [contents] : []), ...observers],
      ...(contents && { onToken: contents.onToken, needsLogits: contents.needsLogits }),
    });
    watch?.(running);
    const elapsedMs = stopwatch();
    let reported = 0;
    const between = async () => {
      advance(running.done - reported);
      reported = running.done;
      await yieldToEvents();
      if (!contents && !turn) return;
      const excluded = async () => {
        if (contents) await withoutPluginCode(() => contents.afterStep());
        await turn?.(running.done / trace.requestCount);
      };
      await (clock instanceof BusyClock ? clock.excluded(excluded) : excluded());
    };
    await stoppingAt(
      signal,
      () => running.stop(),
      () => running.run(between),
    );
    const wallMs = elapsedMs();
    advance(running.done - reported);
    const result = servedResult(running, { steps, slo, warmup: config.warmup });
    if (running.done === trace.requestCount) return { result, wallMs };
    if (running.done === 0) throw new Interrupted();
    return { result: { ...result, interrupted: { requestsDone: running.done, of: trace.requestCount } }, wallMs };
  } catch (error) {
    throw withFile(error, config);
  } finally {
    if (executor !== pool) await executor.close();
  }
}

/** Lets signals be handled while the model computes, which is most of the time, even if the program runs plug-in code. */
const withoutPluginCode = <Result>(act: () => Promise<Result>): Promise<Result> =>
  userCodeRuns() ? pluginHost().withoutPluginCode(act) : act();

function withSignals(executor: Executor): Executor {
  if (!userCodeRuns()) return executor;
  return {
    backend: executor.backend,
    blockCount: executor.blockCount,
    blockTokens: executor.blockTokens,
    poolType: executor.poolType,
    ...(executor.calls && { calls: executor.calls }),
    ...(executor.canSample && { canSample: (sampling) => executor.canSample!(sampling) }),
    executeStep: (step) => withoutPluginCode(() => executor.executeStep(step)),
    copyBlocks: (pairs) => executor.copyBlocks(pairs),
    readBlocks: (blocks) => executor.readBlocks(blocks),
    writeBlocks: (blocks, data) => executor.writeBlocks(blocks, data),
    close: () => executor.close(),
  };
}

const choiceOf = ({ loaded, outputLengths, fold }: RealEngine): TokenChoice => ({
  fold,
  ...(outputLengths === "free" && { endTokens: loaded.config.endTokens }),
});

/** Returns the blocks of the pool. @throws InputError if the model cannot serve the trace in this way, regardless of memory */
export function checkServable(trace: Trace, blocks: BlockColumns, config: RunConfig, engine: RealEngine): number {
  checkPositions(trace, engine);
  checkContents(trace, blocks, { ...config, choice: choiceOf(engine) });
  const { blocks: blockCount } = config;
  if (blockCount === undefined) throw new InputError("an engine has no unlimited cache; give --blocks or --capacity");
  return blockCount;
}

/** @throws InputError if a request exceeds the model's positions. */
function checkPositions(trace: Trace, { model, loaded, outputLengths }: RealEngine): void {
  const { maxPositions } = loaded.config;
  const { requestCount, inputTokens, outputTokens, maxOutputTokens } = trace;
  const longest = outputLengths === "free" ? maxOutputTokens : outputTokens;
  for (let row = 0; row < requestCount; row++) {
    const tokens = inputTokens[row] + longest[row];
    if (tokens > maxPositions)
      throw new InputError(
        `request ${row} has ${tokens} tokens with its output, and ${model} has ${maxPositions} positions`,
      );
  }
}
