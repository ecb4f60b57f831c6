// The functions of the package. Each loads its modules when it is called, so that importing the package is cheap.

type RunTrace = typeof import("./run/run-trace.ts");

export const openTrace: typeof import("./input.ts").openTrace = async (...args) =>
  (await import("./input.ts")).openTrace(...args);

export const replay: RunTrace["replay"] = async (...args) => (await import("./run/run-trace.ts")).replay(...args);

export const simulate: RunTrace["simulate"] = async (...args) => (await import("./run/run-trace.ts")).simulate(...args);

export const serveTrace: RunTrace["serveTrace"] = async (...args) =>
  (await import("./run/run-trace.ts")).serveTrace(...args);

export const compare: typeof import("./compare/compare.ts").compareReplays = async (...args) =>
  (await import("./compare/compare.ts")).compareReplays(...args);

export const compareServed: typeof import("./compare/compare-served.ts").compareServed = async (...args) =>
  (await import("./compare/compare-served.ts")).compareServed(...args);

export const firstDifference: typeof import("./compare/first-difference.ts").firstDifference = async (...args) =>
  (await import("./compare/first-difference.ts")).firstDifference(...args);

export const verify: typeof import("./verify/verify.ts").verify = async (...args) =>
  (await import("./verify/verify.ts")).verify(...args);

export const calibrate: typeof import("./calibrate/calibrate.ts").calibrate = async (...args) =>
  (await import("./calibrate/calibrate.ts")).calibrate(...args);

export const generate: typeof import("./generate/generate.ts").generate = async (...args) =>
  (await import("./generate/generate.ts")).generate(...args);

export const fuzz: typeof import("./fuzz/fuzz.ts").fuzz = async (...args) =>
  (await import("./fuzz/fuzz.ts")).fuzz(...args);

export const beat: typeof import("./fuzz/fuzz.ts").beat = async (...args) =>
  (await import("./fuzz/fuzz.ts")).beat(...args);

export const checkPlugin: typeof import("./check/check.ts").checkPlugin = async (...args) =>
  (await import("./check/check.ts")).checkPlugin(...args);

export const runConformance: typeof import("./conformance/conformance.ts").runConformance = async (...args) =>
  (await import("./conformance/conformance.ts")).runConformance(...args);

export const runExperiment: typeof import("./experiments/run-experiment.ts").runExperiment = async (...args) =>
  (await import("./experiments/run-experiment.ts")).runExperiment(...args);

export const listExperiments = async (): Promise<import("./experiments/run-experiment.ts").ExperimentList> =>
  (await import("./experiments/run-experiment.ts")).listExperiments();

export const traceStats: typeof import("./traces/trace-stats.ts").traceStats = async (...args) =>
  (await import("./traces/trace-stats.ts")).traceStats(...args);

export const generateTrace: typeof import("./traces/generate-trace.ts").generateTrace = async (...args) =>
  (await import("./traces/generate-trace.ts")).generateTrace(...args);

export const doctor: typeof import("./doctor/doctor.ts").doctor = async (...args) =>
  (await import("./doctor/doctor.ts")).doctor(...args);

export const listPlugins = async (): Promise<import("./plugin-list.ts").PluginList> =>
  (await import("./plugin-list.ts")).listPlugins();
