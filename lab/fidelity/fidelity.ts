import { InputError } from "../../core/errors.ts";
import type { Control } from "../control.ts";
import { version } from "../package.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import { type ErrorRow, errorRows, type RequestErrors, requestErrors } from "./errors.ts";
import { fitNullModel, type NullCoefficients, nullModel } from "./null-model.ts";
import type { RecordedEngine } from "./recorded-engine.ts";
import { readRecordedRun } from "./recorded-run.ts";
import { recordedSystem, simulateRequests, timesOf } from "./simulate-record.ts";

/** Options of a comparison with a recorded run. */
export interface FidelityOptions extends Control, Pick<SimulationOptions, "cost" | "efficiency"> {
  /** Simulates with the null model (step time = a + b · prompt tokens) instead of a cost model. */
  readonly null?: boolean;
  /** The recorded run of the same trace that the null model is fitted to; by default the compared run itself. */
  readonly fitTo?: string | undefined;
  /** Random seed of the bootstrap. */
  readonly seed?: number;
}

/** The document that `kvlab fidelity --json` prints. */
export interface FidelityReport {
  readonly schema: "fidelity/1";
  readonly kvlab: string;
  readonly trace: string;
  readonly record: string;
  readonly requests: number;
  readonly engine: RecordedEngine;
  /** The cost model: "profile:NAME/tpN", "roofline", "null", or a file. */
  readonly cost: string;
  readonly rows: readonly ErrorRow[];
  /** Names of the factors that were fitted to recorded times, with the values and the run; empty if nothing was fitted. */
  readonly fitted: readonly { readonly name: string; readonly value: number; readonly to: string }[];
  readonly preemptions: number;
  readonly hitTokens: number;
  readonly requestErrors: RequestErrors;
}

/**
 * Simulates the requests of a recorded run of vLLM with its model, GPU, limits and number of blocks, and compares their times.
 *
 * @param trace a trace with token ids
 * @param record the folder of the run: requests.jsonl, meta.json, config.json
 * @throws InputError, TraceError, Interrupted
 */
export async function fidelity(trace: string, record: string, options: FidelityOptions = {}): Promise<FidelityReport> {
  const { null: isNull = false, fitTo = record, seed = 1 } = options;
  if (isNull && (options.cost !== undefined || options.efficiency !== undefined))
    throw new InputError("--null and --cost exclude each other: both set the step times");
  if (!isNull && options.fitTo !== undefined) throw new InputError("--fit-to needs --null: nothing else is fitted");
  const run = await readRecordedRun(trace, record);
  const system = await recordedSystem(run, {
    ...(options.cost !== undefined && { cost: options.cost }),
    ...(options.efficiency && { efficiency: options.efficiency }),
  });
  let fit: NullCoefficients | undefined;
  if (isNull) {
    const other = fitTo === record ? run : await readRecordedRun(trace, fitTo);
    fit = await fitNullModel(other, fitTo === record ? system : await recordedSystem(other), options);
  }
  const cost = fit ? () => nullModel(fit) : system.config.cost;
  const simulated = simulateRequests(run, system, cost);
  const times = timesOf(run, simulated);
  return {
    schema: "fidelity/1",
    kvlab: version,
    trace,
    record,
    requests: run.trace.requestCount,
    engine: run.engine,
    cost: isNull ? "null" : system.description.cost,
    rows: errorRows(run.times, times, seed),
    fitted: Object.entries(fit ?? {}).map(([name, value]) => ({ name, value, to: fitTo })),
    preemptions: simulated.preemptions,
    hitTokens: simulated.hitTokens,
    requestErrors: requestErrors(run.times, times),
  };
}
