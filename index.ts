// What programs import from "kvlab": the contracts of plug-ins, and a function for each command.

export { InputError, InvariantError, PolicyError } from "./core/errors.ts";
export { byScore, type Score } from "./core/plugins/by-score.ts";
export type { EntryColumns } from "./core/plugins/entry-columns.ts";
export type * from "./core/plugins/index.ts";
export type { Random } from "./core/random.ts";
export { type Trace, TraceBuilder, type TraceRow, type TraceSource } from "./core/trace/trace.ts";
export type { Calibrated, CalibrateOptions } from "./lab/calibrate/calibrate.ts";
export type { CompareOptions, ReplayComparison } from "./lab/compare/compare.ts";
export type { ServedComparison, ServedComparisonOptions } from "./lab/compare/compare-served.ts";
export type { DifferenceOptions, FirstDifferences } from "./lab/compare/first-difference.ts";
export { type Control, Interrupted, type Progress } from "./lab/control.ts";
export type { BeatOptions, FuzzOptions } from "./lab/fuzz/fuzz.ts";
export type { Generated, GenerateOptions } from "./lab/generate/generate.ts";
export type { Input, TraceChoice, TraceReading } from "./lab/input.ts";
export {
  beat,
  calibrate,
  compare,
  compareServed,
  firstDifference,
  fuzz,
  generate,
  openTrace,
  replay,
  serveTrace,
  simulate,
  verify,
} from "./lab/library.ts";
export type { RunReport } from "./lab/output/report.ts";
export type { Capacity } from "./lab/run/capacity.ts";
export type { PartChoice } from "./lab/run/configuration.ts";
export type { ReplayOptions, ServeOptions, SimulateOptions, TraceRun, TraceRunOptions } from "./lab/run/run-trace.ts";
export type { SimulationOptions } from "./lab/run/simulation-options.ts";
export type { Verified, VerifyOptions } from "./lab/verify/verify.ts";
