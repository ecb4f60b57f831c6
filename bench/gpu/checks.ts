import type { EngineBackend } from "../../engine/backend.ts";
import { type BackendName, defaultBackend } from "../../engine/backends.ts";
import { openCudaExecutor } from "../../engine/cuda/executor.ts";
import { loadModel } from "../../engine/model/load.ts";
import { argmax } from "../../engine/sampling.ts";
import { blockTokens, greedyStep, promptOf, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";
import { verify } from "../../lab/library.ts";
import type { NamedNumbers } from "../../lab/run/simulation-options.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { expectedLogits, logitsOf, modelNames, openSmall, rowErrors } from "./expected.ts";
import { compareWithTransformers } from "./oracle.ts";
import { compareProducts } from "./products.ts";
import type { Results } from "./report.ts";
import { generated } from "./steps.ts";
import { blockSizeFor, conversations } from "./trace.ts";

/** Where a check gets its inputs. */
export interface CheckOptions {
  readonly backend: EngineBackend;
  /** Folder of expected logits; computed by the default backend if it has none. */
  readonly expected: string | undefined;
  readonly python: string;
  /** Folder of checkpoints with logits by transformers; created with Python by default. */
  readonly checkpoints: string | undefined;
  /** Requests of the trace that each preset serves. */
  readonly requests: number;
}

/** The outcome of a check: what fails, and its numbers. */
export interface Outcome {
  readonly failures: readonly string[];
  /** The reason why the check does not apply. */
  readonly skipped?: string;
  readonly results: Results;
}

export interface Check {
  readonly name: string;
  run(options: CheckOptions): Promise<Outcome>;
}

/** Largest error of a row of bf16 logits, relative to its largest magnitude; exact backends have no tolerance for hits. */
const bfloat16Tolerance = 0.1;
const toleranceOf = (backend: EngineBackend) => (backend.contentsTolerance ? bfloat16Tolerance : 1e-4);

/** All checks, the fastest and most basic first. */
export const checks: readonly Check[] = [
  ...modelNames.map((model) => ({ name: `logits ${model}`, run: (options: CheckOptions) => logits(model, options) })),
  { name: "matrix products", run: matrixProducts },
  ...modelNames.map((model) => ({
    name: `hit against miss ${model}`,
    run: (options: CheckOptions) => hits(model, options),
  })),
  { name: "graphs against launches", run: graphs },
  { name: "transformers", run: transformers },
  ...presetRegistry.all.map(({ name }) => ({
    name: `verify ${name}`,
    run: (options: CheckOptions) => preset(name, options),
  })),
  { name: "verify vllm-v0 with swap", run: (options) => preset("vllm-v0", options, { swap: 1 }) },
];

/** Logits of prefill and decode against those of the default backend. */
async function logits(name: string, { backend, expected }: CheckOptions): Promise<Outcome> {
  const { vocabulary } = loadModel(name).config;
  const reference = await expectedLogits(name, expected);
  const executor = await openSmall(backend, name);
  try {
    const errors = rowErrors(await logitsOf(executor, vocabulary), reference, vocabulary);
    const tolerance = toleranceOf(backend);
    const isClose = errors.largest <= tolerance;
    return {
      failures: isClose ? [] : [`largest error ${errors.largest}, expected at most ${tolerance}`],
      results: { ...errors },
    };
  } finally {
    await executor.close();
  }
}

/** Tokens after a cached prefix, and of a prefill in chunks, against those of a prefill of the whole prompt. */
async function hits(name: string, { backend }: CheckOptions): Promise<Outcome> {
  const { vocabulary } = loadModel(name).config;
  const executor = await openSmall(backend, name);
  const [length, count] = [90, 8];
  try {
    const tokens = promptOf(length, vocabulary, 9);
    const whole = await generated(executor, { tokens, to: length, block: 1 }, count);
    const failures: string[] = [];
    let largest = 0;
    for (const [block, chunks] of [
      [20, [64, length]],
      [40, [16, 17, 83, length]],
    ] as const) {
      const other = await generated(executor, { tokens, to: length, block }, count, chunks);
      for (const [i, row] of whole.entries()) {
        const error = rowErrors(other[i], row, vocabulary);
        largest = Math.max(largest, error.largest);
        if (!(error.largest <= (backend.contentsTolerance?.logits ?? 0)))
          failures.push(`token ${i} with chunks to ${chunks.join(", ")}: error ${error.largest}`);
        // After two near-equal logits the outputs differ.
        if (error.sameToken < 1) break;
      }
    }
    const step = stepOf([{ tokens, from: 0, to: length, block: 1 }]);
    const { logits } = await executor.executeStep(step);
    const expected = argmax(logits);
    if (executor.canSample?.(greedyStep(step).sampling![0])) {
      const { tokens: sampled } = await executor.executeStep(greedyStep(step));
      if (sampled?.[0] !== expected) failures.push(`the device samples token ${sampled?.[0]}, expected ${expected}`);
    }
    return { failures, results: { largest } };
  } finally {
    await executor.close();
  }
}

/** Our own GEMM against cuBLAS and against products on the host. */
async function matrixProducts({ backend }: CheckOptions): Promise<Outcome> {
  if (!isCuda(backend)) return skipped(backend);
  const { cublas, products } = compareProducts();
  // Tensor cores truncate their sums.
  const tolerance = 1e-4;
  const failures = products.flatMap(({ M, N, K, transposed, ...errors }) =>
    Object.entries(errors)
      .filter(([, error]) => error !== null && !(error <= tolerance))
      .map(([what, error]) => `${M}x${N}x${K}${transposed ? " transposed" : ""}: ${what} ${error}`),
  );
  return { failures, results: { cublas, products } };
}

/** Decode steps as CUDA graphs against the same steps as single launches. */
async function graphs({ backend }: CheckOptions): Promise<Outcome> {
  if (!isCuda(backend)) return skipped(backend);
  const name = "random:tiny-qwen3";
  const model = loadModel(name);
  const all: Float32Array[][] = [];
  for (const graphs of [true, false]) {
    const executor = await openCudaExecutor({ model, blockCount: 64, blockTokens, graphs });
    try {
      const tokens = promptOf(40, model.config.vocabulary, 3);
      const rows: Float32Array[] = [];
      for (let to = 33; to <= 40; to++) {
        const from = to === 33 ? 0 : to - 1;
        // Three sequences: a graph pads them to four.
        const step = stepOf([1, 5, 9].map((block) => ({ tokens, from, to, block })));
        rows.push((await executor.executeStep(step)).logits.slice());
      }
      all.push(rows);
    } finally {
      await executor.close();
    }
  }
  const [withGraphs, without] = all;
  const errors = without.map((row, i) => rowErrors(withGraphs[i], row, model.config.vocabulary).largest);
  const largest = Math.max(...errors);
  const tolerance = backend.contentsTolerance!.logits;
  const failures = errors.some((error) => !(error <= tolerance)) ? [`largest error ${largest} of ${tolerance}`] : [];
  return { failures, results: { largest, identical: largest === 0 } };
}

/** Logits of random checkpoints against those of the transformers library. */
async function transformers({ backend, python, checkpoints }: CheckOptions): Promise<Outcome> {
  const compared = await compareWithTransformers(backend, python, checkpoints);
  if ("skipped" in compared) return { failures: [], skipped: compared.skipped, results: {} };
  const tolerance = toleranceOf(backend);
  const failures = [...compared].flatMap(([name, { largest }]) =>
    largest <= tolerance ? [] : [`${name}: largest error ${largest}, expected at most ${tolerance}`],
  );
  return { failures, results: Object.fromEntries(compared) };
}

/** A third of the trace's contents. */
const poolTokens = 320;

/** Decisions and contents of a preset that serves conversations with a cache that thrashes. */
async function preset(
  name: string,
  { backend, requests }: CheckOptions,
  schedulerOption: NamedNumbers = {},
): Promise<Outcome> {
  const input = await conversations(requests);
  const { index, blockTokens: own } = presetRegistry.get(name);
  const blockSize = blockSizeFor(own, blockTokens);
  const { report } = await verify(input, {
    ...{ backend: backend.name as BackendName, preset: name, model: "random:tiny", fold: true, pace: "none" },
    ...{ schedulerOption, blockSize, blocks: { blocks: Math.ceil(poolTokens / blockSize) }, contents: true },
  });
  const { evict, drop } = report.decisionsByKind;
  const thrashes = evict + drop > 0;
  const failures = [
    ...(thrashes || index.storesNothing ? [] : ["nothing was evicted, expected a cache that is too small"]),
    ...(report.identical ? [] : [`decisions differ: ${JSON.stringify(report.difference ?? null)}`]),
    ...(report.contents?.identical === false
      ? [`contents differ: ${JSON.stringify(report.contents.difference ?? null)}`]
      : []),
  ];
  return { failures, results: { decisions: report.decisionsByKind, contents: report.contents } };
}

/** Checks of launches need a backend of CUDA kernels. */
const isCuda = (backend: EngineBackend) => backend !== defaultBackend;

const skipped = ({ name }: EngineBackend): Outcome => ({
  failures: [],
  skipped: `not for --target ${name}`,
  results: {},
});
