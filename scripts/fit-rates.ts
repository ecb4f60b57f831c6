import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { parse } from "yaml";
import { profilesFolder } from "../lab/package.ts";
import { AttentionTime } from "../sim/cost/attention-time.ts";
import { fitWithin, type Range } from "../sim/cost/bounded-fit.ts";
import { type Efficiency, efficiencyOf } from "../sim/cost/efficiency.ts";
import { ElementwiseTime } from "../sim/cost/elementwise-time.ts";
import { ExpertsTime } from "../sim/cost/experts-time.ts";
import { type Hardware, hardwareNamed } from "../sim/cost/hardware.ts";
import { layerKernels, layerMatrices } from "../sim/cost/layer-operators.ts";
import { type Matrix, MatrixTime } from "../sim/cost/matrix-time.ts";
import type { ModelShape } from "../sim/cost/model-shape.ts";
import { modelNamed } from "../sim/cost/models.ts";
import { touchedExperts } from "../sim/cost/touched-experts.ts";

/** The profiles from which the rates of each device are fitted, and those that test them. */
export const fittedProfiles = {
  "rtx-pro-6000": {
    fitted: ["rtxpro6000-qwen3-32b", "rtxpro6000-qwen3-30b-a3b"],
    tested: ["rtxpro6000-llama-3.1-8b"],
    degrees: [1, 2],
  },
  "rtx-4090": { fitted: ["rtx4090-llama-3.1-8b"], tested: [], degrees: [1] },
} as const;

export type FittedDevice = keyof typeof fittedProfiles;

type Row = Readonly<Record<string, string>>;

/** One profile at one degree of tensor parallelism. */
export interface Measured {
  readonly name: string;
  readonly shape: ModelShape;
  readonly devices: number;
  readonly dense: readonly Row[];
  readonly attention: readonly Row[];
  readonly perSequence: readonly Row[];
  readonly experts: readonly Row[];
  readonly skew: number | undefined;
}

function rowsOf(path: string): Row[] {
  const [head, ...lines] = gunzipSync(readFileSync(path)).toString("utf8").trimEnd().split(/\r?\n/);
  const names = head.split(",");
  return lines.map((line) => {
    const cells = line.split(",");
    return Object.fromEntries(names.map((name, i) => [name, cells[i]]));
  });
}

export function measuredOf(name: string, devices: number): Measured {
  const folder = `${profilesFolder}/${name}`;
  const meta = parse(readFileSync(`${folder}/meta.yaml`, "utf8"));
  const shape = modelNamed(meta.model);
  const table = (file: string) => rowsOf(`${folder}/tp${devices}/${file}.csv.gz`);
  return {
    name: `${name}/tp${devices}`,
    shape,
    devices,
    dense: table("dense"),
    attention: table("attention"),
    perSequence: table("per_sequence"),
    experts: shape.experts && devices === 1 ? table("moe") : [],
    skew: meta.skew_fit.per_tp?.[devices]?.alpha_default,
  };
}

/** One measured operator: its time, and the predicted one by the rates of a device. All in nanoseconds. */
export interface Operator {
  readonly name: string;
  readonly ns: number;
  /** Bytes of the weights of a matrix product. */
  readonly weights?: number;
  predict(rates: Predictors): number;
}

export interface Predictors {
  readonly matrix: MatrixTime;
  readonly elementwise: ElementwiseTime;
  readonly attention: AttentionTime;
  readonly experts: ExpertsTime;
  readonly efficiency: Efficiency;
}

const nsOf = (row: Row) => 1e3 * Number(row["time_us"]);

export function matricesOf({ name, shape, devices, dense, perSequence }: Measured): Operator[] {
  const matrices = new Map<string, Matrix>(layerMatrices(shape, devices).map((matrix) => [matrix.name, matrix]));
  matrices.set("lm_head", { outputs: shape.vocabulary / devices, inputs: shape.hidden });
  return [...dense, ...perSequence].flatMap((row) => {
    const matrix = matrices.get(row["layer"]);
    if (matrix === undefined) return [];
    const weights = matrix.outputs * matrix.inputs * shape.weightBytes;
    const tokens = Number(row["tokens"] ?? row["sequences"]);
    const predict = (rates: Predictors) => rates.matrix.ns(tokens, matrix, shape.weightBytes);
    return [{ name: `${name} ${row["layer"]}`, ns: nsOf(row), weights, predict }];
  });
}

export function elementwiseOf({ name, shape, devices, dense }: Measured): Operator[] {
  const kernels = new Map(layerKernels(shape, devices).map((kernel) => [kernel.name, kernel]));
  return dense.flatMap((row) => {
    const kernel = kernels.get(row["layer"]);
    if (kernel === undefined) return [];
    const bytes = Number(row["tokens"]) * kernel.numbers * shape.numberBytes;
    const predict = ({ elementwise }: Predictors) => elementwise.ns(bytes);
    return [{ name: `${name} ${row["layer"]}`, ns: nsOf(row), predict }];
  });
}

export function samplerOf({ name, shape, devices, perSequence }: Measured): Operator[] {
  return perSequence.flatMap((row) => {
    if (row["layer"] !== "sampler") return [];
    const bytes = (Number(row["sequences"]) * shape.vocabulary * 8) / devices;
    const predict = ({ efficiency, elementwise }: Predictors) =>
      1e3 * efficiency.samplerUs + elementwise.trafficNs(bytes);
    return [{ name: `${name} sampler`, ns: nsOf(row), predict }];
  });
}

/** Shorter contexts of decodes than this are in no request of a common trace. */
const leastContext = 128;

export function attentionOf({ name, attention }: Measured, kind: "decode" | "prefill" | "mixed"): Operator[] {
  return attention.flatMap((row) => {
    const chunk = Number(row["prefill_chunk"]);
    const cached = Number(row["kv_prefill"]);
    const decodes = Number(row["n_decode"]);
    const context = Number(row["kv_decode"]);
    const found = chunk === 0 ? "decode" : decodes === 0 ? "prefill" : "mixed";
    if (found !== kind || (decodes > 0 && context < leastContext)) return [];
    const load = {
      prefillSequences: chunk > 0 ? 1 : 0,
      prefillTokens: chunk,
      prefillPairs: chunk * cached + (chunk * (chunk + 1)) / 2,
      prefillContextTokens: chunk > 0 ? cached + chunk : 0,
      decodeTokens: decodes,
      decodeContextTokens: decodes * context,
    };
    return [
      { name: `${name} attention, ${kind}`, ns: nsOf(row), predict: (rates: Predictors) => rates.attention.ns(load) },
    ];
  });
}

export function expertsOf({ name, shape, experts }: Measured): Operator[] {
  const touched = shape.experts ? touchedExperts(shape.experts.count, shape.experts.active) : undefined;
  return experts.flatMap((row) => {
    const tokens = Number(row["tokens"]);
    const activated = Number(row["activated_experts"]);
    // Fewer experts than tokens chosen at random activate occur in no step.
    if (touched && activated < 0.75 * touched[Math.min(tokens, touched.length - 1)]) return [];
    return [
      { name: `${name} experts`, ns: nsOf(row), predict: (rates: Predictors) => rates.experts.ns(tokens, activated) },
    ];
  });
}

/** The times that depend on the rates of a device. */
export function predictorsOf(hardware: Hardware, efficiency: Efficiency, { shape, devices }: Measured): Predictors {
  return {
    matrix: new MatrixTime(hardware, efficiency, shape.compute),
    elementwise: new ElementwiseTime(hardware, efficiency),
    attention: new AttentionTime(shape, hardware, efficiency, devices, shape.numberBytes),
    experts: new ExpertsTime(shape, hardware, efficiency, devices),
    efficiency,
  };
}

export const operatorsOf = (measured: Measured): Operator[] => [
  ...matricesOf(measured),
  ...elementwiseOf(measured),
  ...samplerOf(measured),
  ...expertsOf(measured),
  ...(["decode", "prefill", "mixed"] as const).flatMap((kind) => attentionOf(measured, kind)),
];

/**
 * Matrix products for the fit. Weights that are a small part of the cache remain there from one measurement to the next, and are
 * read faster than in a model of many layers.
 */
const uncached = (measured: Measured, { cacheBytes }: Hardware) =>
  matricesOf(measured).filter(({ weights = 0 }) => weights > cacheBytes / 4);

/** Most operators of one profile in a fit, evenly spaced: the attention tables have many thousand rows. */
const most = 700;

interface Group {
  readonly ranges: Readonly<Partial<Record<keyof Efficiency, Range>>>;
  operators(measured: Measured, hardware: Hardware): Operator[];
}

/** Rates that are fitted together, in this order: the later ones use the earlier ones. */
const groups: readonly Group[] = [
  {
    ranges: { memory: [0.7, 1.1], matrices: [0.4, 1.5], overlap: [0.2, 0.98], matrixUs: [0.2, 20], waveUs: [0.1, 20] },
    operators: uncached,
  },
  { ranges: { elementwiseUs: [0.5, 10], cached: [0.05, 0.9] }, operators: elementwiseOf },
  { ranges: { samplerUs: [2, 100] }, operators: samplerOf },
  { ranges: { experts: [0.05, 2], expertsUs: [2, 200] }, operators: expertsOf },
  {
    ranges: { kv: [0.5, 1.1], decodeUs: [1, 40], decodeTileUs: [0.2, 20] },
    operators: (measured) => attentionOf(measured, "decode"),
  },
  {
    ranges: {
      ...{ attention: [0.2, 1.5], attentionUs: [0.2, 10], tileUs: [0.5, 20], emptyTileUs: [0.02, 4] },
      ...{ tail: [0.1, 2], reread: [0.1, 2] },
    },
    operators: (measured) => [...attentionOf(measured, "prefill"), ...attentionOf(measured, "mixed")],
  },
];

/** Sum of the absolute logarithms of predicted ÷ measured time. */
const errorOf = (operators: readonly Operator[], rates: Predictors) =>
  operators.reduce((sum, one) => sum + Math.abs(Math.log(one.predict(rates) / one.ns)), 0);

/** The rates of a device from its profiles, rounded to three digits. Rates without a measurement are those of `efficiencyOf`. */
export function fittedRates(device: FittedDevice): Efficiency {
  const hardware = hardwareNamed(device);
  const { fitted, degrees } = fittedProfiles[device];
  const measured = fitted.flatMap((name) => degrees.map((devices) => measuredOf(name, devices)));
  const skews = measured.flatMap(({ skew }) => (skew === undefined ? [] : [skew]));
  let rates = efficiencyOf(hardware);
  if (skews.length > 0) rates = { ...rates, skew: rounded(skews.reduce((sum, one) => sum + one, 0) / skews.length) };
  for (const { ranges, operators } of groups) {
    const samples = measured.flatMap((one) => {
      const all = operators(one, hardware);
      const every = Math.ceil(all.length / most);
      const drawn = all.filter((_, i) => i % every === 0);
      return drawn.length > 0 ? [{ one, drawn }] : [];
    });
    if (samples.length === 0) continue;
    const found = fitWithin(
      ranges as Record<string, Range>,
      (factors) => {
        const trial = { ...rates, ...factors };
        const errors = samples.map(({ one, drawn }) => errorOf(drawn, predictorsOf(hardware, trial, one)));
        return errors.reduce((sum, error) => sum + error, 0);
      },
      device,
    );
    rates = { ...rates, ...Object.fromEntries(Object.entries(found).map(([name, value]) => [name, rounded(value)])) };
  }
  return rates;
}

const rounded = (value: number) => Number(value.toPrecision(3));
