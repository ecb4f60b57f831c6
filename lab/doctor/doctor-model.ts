import { grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { tokensThatFit } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { type LoadedModel, loadModel } from "../../engine/model/load.ts";
import type { WeightBits } from "../../engine/onnx/quantized.ts";
import { byteSize, type Finding, finding } from "./finding.ts";

/** The model to check, and the size of its block pool. */
export interface ModelCheck {
  readonly model: string;
  readonly bits: WeightBits;
  /** Bytes of the pool. */
  readonly capacity?: number;
  /** Blocks of the pool, instead of bytes. */
  readonly blocks?: number;
  readonly blockSize: number;
}

const { memory } = defaultBackend;

const allBits = [32, 8, 4] as const;
type ByBits = Readonly<Record<WeightBits, number>>;
const byBits = (of: (bits: WeightBits) => number): ByBits => ({ 32: of(32), 8: of(8), 4: of(4) });

/** Whether a model is complete, and how much memory it needs. */
export interface ModelReport {
  readonly model: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly maxPositions: number;
  readonly weightBytes: ByBits;
  readonly kvBytesPerToken: number;
  /** Largest pool that fits beside the weights into the available memory. */
  readonly tokensThatFit: ByBits;
  readonly bits: WeightBits;
  /** Size of the requested pool; null if none is requested. */
  readonly poolBytes: number | null;
  readonly fits: boolean;
}

/** Checks that a model is complete and fits into memory. */
export async function modelFindings(
  check: ModelCheck,
  availableBytes: number,
  signal?: AbortSignal,
): Promise<{ readonly findings: Finding[]; readonly report: ModelReport | null }> {
  let model: LoadedModel | undefined;
  const found = await finding(signal, "model", () => {
    model = loadModel(check.model);
    const { architecture, maxPositions } = model.config;
    return `${architecture}, ${grouped(model.parameterCount)} parameters, ${grouped(maxPositions)} positions`;
  });
  if (model === undefined) return { findings: [found], report: null };
  try {
    const { tokenizer } = model;
    const text = await finding(signal, "tokenizer", async () => {
      await tokenizer();
      return "loads";
    });
    const report = reportOf(check, model, availableBytes);
    return { findings: [found, text, ...sizes(report), await fitFinding(report, availableBytes)], report };
  } finally {
    model.close();
  }
}

function reportOf(check: ModelCheck, loaded: LoadedModel, availableBytes: number): ModelReport {
  const { config, parameterCount: parameters } = loaded;
  const { model, bits, capacity, blocks, blockSize } = check;
  const weights = byBits((each) => memory.weightBytes(config, each));
  const tokens = byBits((each) => tokensThatFit(memory, config, each, availableBytes));
  const kvBytesPerToken = memory.tokenBytes(config);
  const poolBytes = capacity ?? (blocks === undefined ? null : blocks * blockSize * kvBytesPerToken);
  const { architecture, maxPositions } = config;
  return {
    ...{ model, architecture, parameters, maxPositions },
    ...{ weightBytes: weights, kvBytesPerToken, tokensThatFit: tokens, bits, poolBytes },
    fits: poolBytes === null ? tokens[bits] > 0 : weights[bits] + poolBytes <= availableBytes,
  };
}

const sizes = ({ weightBytes: weights, kvBytesPerToken }: ModelReport): Finding[] => [
  {
    what: "weights",
    ok: true,
    found: allBits.map((bits) => `${byteSize(weights[bits])} with ${bits}-bit weights`).join(", "),
  },
  { what: "keys, values", ok: true, found: `${byteSize(kvBytesPerToken)} a token` },
];

function fitFinding(report: ModelReport, availableBytes: number): Promise<Finding> {
  const { bits, poolBytes, tokensThatFit: tokens, weightBytes: weights, kvBytesPerToken, fits } = report;
  const beside = `beside ${bits}-bit weights (${byteSize(weights[bits])}) in ${byteSize(availableBytes)}`;
  return finding(undefined, "fit", () => {
    if (poolBytes === null) {
      if (!fits) throw new InputError(`no token fits ${beside}`);
      return `${grouped(tokens[bits])} tokens ${beside}`;
    }
    const pool = `${grouped(Math.floor(poolBytes / kvBytesPerToken))} tokens (${byteSize(poolBytes)})`;
    if (!fits) throw new InputError(`${pool} do not fit ${beside}, ${grouped(tokens[bits])} would`);
    return `${pool} ${beside}, ${grouped(tokens[bits])} would fit`;
  });
}
