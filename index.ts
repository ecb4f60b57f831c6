// What programs import from "kvlab": the contracts of plug-ins, and a function for each command.

export { InputError, InvariantError, PolicyError, TraceError } from "./core/errors.ts";
export { byScore, type Score, type ScoredPolicy } from "./core/plugins/by-score.ts";
export type { EntryColumns } from "./core/plugins/entry-columns.ts";
export type * from "./core/plugins/index.ts";
export type { RuleName, RuleSupport, Rules, RuleValue } from "./core/plugins/rules.ts";
export type { Random } from "./core/random.ts";
export type { StepPlan } from "./core/replica/step.ts";
export type {
  ClusterMetrics,
  Latency,
  Objective,
  Slo,
  SloMetric,
  SloMetrics,
  Throughput,
} from "./core/serving/metrics.ts";
export type { StepLoad, StepLoadExtension } from "./core/serving/step-load.ts";
export type { TimeSeries } from "./core/serving/time-series.ts";
export type { BlockColumns } from "./core/trace/content.ts";
export { type OptionalColumns, type Trace, TraceBuilder, type TraceRow, type TraceSource } from "./core/trace/trace.ts";
export type { WeightBits } from "./engine/backend.ts";
export type { TextCodec } from "./engine/model/tokenizer.ts";
export type { BoundAtSize, OfflineBoundOptions } from "./lab/bound/offline-bound.ts";
export type { Calibrated, CalibrateOptions } from "./lab/calibrate/calibrate.ts";
export type { CalibrateProfileOptions, ProfileDocument } from "./lab/calibrate/calibrate-profile.ts";
export type { Checked, CheckOptions } from "./lab/check/check.ts";
export type { CheckDocument, CheckedLaw } from "./lab/check/check-document.ts";
export type { CompareOptions, ReplayComparison } from "./lab/compare/compare.ts";
export type { Row, ServedComparison, ServedComparisonOptions } from "./lab/compare/compare-served.ts";
export type { Band, BandAxis, Comparison, Range } from "./lab/compare/comparison.ts";
export type { DifferenceOptions, FirstDifferences } from "./lab/compare/first-difference.ts";
export type { ServedBand } from "./lab/compare/served-bands.ts";
export type { Case, Conformance, ConformanceDocument, RanCase, Verdict } from "./lab/conformance/conformance.ts";
export { type Control, Interrupted, type Progress } from "./lab/control.ts";
export type { Curve, CurveBand, CurveDocument, CurvePoint, SampleReport } from "./lab/curve/curve-document.ts";
export type { CurveOptions, Curves } from "./lab/curve/curves.ts";
export type { DoctorDocument, DoctorOptions } from "./lab/doctor/doctor.ts";
export type { EngineReport, Memory } from "./lab/doctor/doctor-engine.ts";
export type { ModelReport } from "./lab/doctor/doctor-model.ts";
export type { Finding } from "./lab/doctor/finding.ts";
export type { Findings, Headline, Row as ExperimentRow } from "./lab/experiments/experiment.ts";
export type {
  ExperimentDocument,
  ExperimentList,
  ExperimentOptions,
  ExperimentRun,
  ExperimentTarget,
  ExperimentVerdict,
} from "./lab/experiments/run-experiment.ts";
export type {
  Age,
  AgeUnit,
  Alternative,
  Distribution,
  EvictionBatch,
  Explanation,
  MissedTokensByCause,
  RemovalFacts,
  RequestExplanation,
  Residency,
  ResidencyDistributions,
  TokenRun,
} from "./lab/explain/explanation.ts";
export type { Bin } from "./lab/explain/histogram.ts";
export type { ErrorRow, RequestErrors } from "./lab/fidelity/errors.ts";
export type { FidelityOptions, FidelityReport } from "./lab/fidelity/fidelity.ts";
export type { RecordedEngine } from "./lab/fidelity/recorded-engine.ts";
export type { BeatOptions, BeatSearch, FuzzOptions, FuzzSearch } from "./lab/fuzz/fuzz.ts";
export type { SideChoice } from "./lab/fuzz/sides.ts";
export type { Completion, Finish } from "./lab/generate/completion.ts";
export type { Generated, GenerateOptions } from "./lab/generate/generate.ts";
export type { TimedCompletion } from "./lab/generate/generate-all.ts";
export type { Input, TraceChoice, TraceReading } from "./lab/input.ts";
export {
  anonymizeTrace,
  beat,
  calibrate,
  calibrateProfile,
  checkPlugin,
  compare,
  compareServed,
  convertTrace,
  curve,
  doctor,
  fetchTrace,
  fidelity,
  firstDifference,
  fuzz,
  generate,
  generateTrace,
  likeTrace,
  listExperiments,
  listPlugins,
  listProfiles,
  listPublicTraces,
  offlineBounds,
  openTrace,
  replay,
  runConformance,
  runExperiment,
  serveTrace,
  simulate,
  size,
  sweep,
  traceStats,
  verify,
} from "./lab/library.ts";
export type { Metric, OfflineBound, Ratios } from "./lab/output/hit-ratios.ts";
export type { RunReport } from "./lab/output/report.ts";
export type { ListedPlugin, ListedPreset, ListedRule, PluginList } from "./lab/plugin-list.ts";
export type { ProfileFolder } from "./lab/profiles/catalogue.ts";
export type { Capacity } from "./lab/run/capacity.ts";
export type { PartChoice, Parts } from "./lab/run/configuration.ts";
export type { RunResult } from "./lab/run/run.ts";
export type { SimulationOptions } from "./lab/run/simulation-options.ts";
export type {
  LiveOptions,
  ReplayOptions,
  ServeOptions,
  SimulateOptions,
  TraceRun,
  TraceRunOptions,
} from "./lab/run/trace-run.ts";
export type { Sized } from "./lab/size/size.ts";
export type {
  Gain,
  ListedCluster,
  ShareWithin,
  SizeAnswer,
  SizeDocument,
  SizedCluster,
  SizeLimit,
  SizeLimits,
} from "./lab/size/size-document.ts";
export type { SizeLoad, SizeOptions } from "./lab/size/size-options.ts";
export type { Scalar } from "./lab/sweep/axes.ts";
export type { SweepConfiguration, SweptOptions } from "./lab/sweep/options.ts";
export type { FailedConfiguration, SweepOptions, SweepReport } from "./lab/sweep/sweep.ts";
export type { AnonymizeTraceOptions } from "./lab/traces/anonymize-trace.ts";
export type { ConvertTraceOptions, LostColumn, WrittenTrace } from "./lab/traces/convert-trace.ts";
export type { FetchedTrace, FetchTraceOptions } from "./lab/traces/fetch-trace.ts";
export type { GeneratedFile, GenerateTraceOptions } from "./lab/traces/generate-trace.ts";
export type { ComparedSpread, LikeTraceOptions, TraceLikeness } from "./lab/traces/like-trace.ts";
export type { OutputFile } from "./lab/traces/output-file.ts";
export type { PublicTrace } from "./lab/traces/public-traces.ts";
export type { DescribedTrace, TraceStatsDocument, TraceStatsOptions } from "./lab/traces/trace-stats.ts";
export type { CostPlugin, PluginKind, Plugins, ReaderPlugin } from "./lab/user-plugins/kinds.ts";
export type { Verified, VerifyOptions } from "./lab/verify/verify.ts";
export type { CheckResult, Finding as LawFinding } from "./laws/check-plugin.ts";
export type { Growth } from "./laws/cost.ts";
export type { ShapeGrowth } from "./laws/index-cost.ts";
export type { Law } from "./laws/law.ts";
export type { Preset } from "./policies/preset.ts";
export type { CostModel } from "./sim/cost/cost-model.ts";
export type { OpenTraceOptions } from "./traces/format.ts";
export type { ChatOptions } from "./traces/generators/chat.ts";
export type { GeneratorChoice } from "./traces/generators/registry.ts";
export type { ContentStats, SharedPrefix } from "./traces/stats/content-statistics.ts";
export type { TraceStats } from "./traces/stats/stats.ts";
export type { Spread } from "./traces/stats/value-counts.ts";
