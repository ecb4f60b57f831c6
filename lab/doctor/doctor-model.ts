import { grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { type EngineBackend, tokensThatFit, type WeightBits } from "../../engine/backend.ts";
import { type LoadedModel, loadModel } from "../../engine/model/load.ts";
import { byteSize, type Finding, finding } from "./finding.ts";

/** The model to check, and the size of its block pool. */
export interface ModelCheck {
  readonly model: string;
  readonly bits?: WeightBits;
  /** Bytes of the pool. */
  readonly capacity?: number;
  /** Blocks of the pool, instead of bytes. */
  readonly blocks?: number;
  readonly blockSize: number;
}

type ByBits = Readonly<Partial<Record<WeightBits, number>>>;

/** The memory that a model needs on one backend. */
export interface ModelFit {
  readonly weightBytes: ByBits;
  readonly kvBytesPerToken: number;
  /** Largest pool that fits beside the weights into the available memory. */
  readonly tokensThatFit: ByBits;
  readonly bits: WeightBits;
  /** Size of the requested pool; null if none is requested. */
  readonly poolBytes: number | null;
  readonly fits: boolean;
}

/** Whether a model is complete, and how much memory it needs: on the default backend, and on each other one. */
export interface ModelReport extends ModelFit {
  readonly model: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly maxPositions: number;
  /** Other backends whose device the machine has. */
  readonly otherBackends: readonly (ModelFit & { readonly name: string; readonly availableBytes: number })[];
}

/**
 * Checks that a model is complete and fits into the memory of one of the backends; `availableBytes` are those of the first one, the
 * others have their own memory.
 */
export async function modelFindings(
  check: ModelCheck,
  [backend, ...others]: readonly EngineBackend[],
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
    const { tokenizer, parameterCount: parameters } = model;
    const text = await finding(signal, "tokenizer", async () => {
      await tokenizer();
      return "loads";
    });
    const own = fitOf(check, model, backend, availableBytes);
    const fits = [await fitFinding("fit", own, availableBytes)];
    const otherBackends = [];
    for (const other of others) {
      const { name } = other;
      const bytes = other.memory.availableBytes();
      const fit = fitOf(check, model, other, bytes);
      fits.push(await fitFinding(`fit, ${name}`, fit, bytes));
      otherBackends.push({ name, availableBytes: bytes, ...fit });
    }
    const { architecture, maxPositions } = model.config;
    // One backend suffices; if the model fits none, that of the first one fails.
    const isEnough = fits.some(({ ok }) => ok);
    const rated = fits.map((one, i) => (one.ok || (i === 0 && !isEnough) ? one : { ...one, optional: true as const }));
    return {
      findings: [found, text, ...sizes(own), ...rated],
      report: { ...{ model: check.model, architecture, parameters, maxPositions }, ...own, otherBackends },
    };
  } finally {
    model.close();
  }
}

function fitOf(
  { bits: given, capacity, blocks, blockSize }: ModelCheck,
  { config }: LoadedModel,
  { memory, weightBits }: EngineBackend,
  availableBytes: number,
): ModelFit {
  const byBits = (of: (bits: WeightBits) => number): ByBits =>
    Object.fromEntries(weightBits.map((bits) => [bits, of(bits)]));
  const bits = given !== undefined && weightBits.includes(given) ? given : weightBits[0];
  const weightBytes = byBits((each) => memory.weightBytes(config, each));
  const tokens = byBits((each) => tokensThatFit(memory, config, each, availableBytes));
  const kvBytesPerToken = memory.tokenBytes(config);
  const poolBytes = capacity ?? (blocks === undefined ? null : blocks * blockSize * kvBytesPerToken);
  const fits = poolBytes === null ? tokens[bits]! > 0 : weightBytes[bits]! + poolBytes <= availableBytes;
  return { weightBytes, kvBytesPerToken, tokensThatFit: tokens, bits, poolBytes, fits };
}

const sizes = ({ weightBytes, kvBytesPerToken }: ModelFit): Finding[] => [
  {
    what: "weights",
    ok: true,
    found: Object.entries(weightBytes)
      .sort(([a], [b]) => Number(b) - Number(a))
      .map(([bits, bytes]) => `${byteSize(bytes)} with ${bits}-bit weights`)
      .join(", "),
  },
  { what: "keys, values", ok: true, found: `${byteSize(kvBytesPerToken)} a token` },
];

function fitFinding(what: string, fit: ModelFit, availableBytes: number): Promise<Finding> {
  const { bits, poolBytes, tokensThatFit: tokens, weightBytes: weights, kvBytesPerToken, fits } = fit;
  const beside = `beside ${bits}-bit weights (${byteSize(weights[bits]!)}) in ${byteSize(availableBytes)}`;
  return finding(undefined, what, () => {
    if (poolBytes === null) {
      if (!fits) throw new InputError(`no token fits ${beside}`);
      return `${grouped(tokens[bits]!)} tokens ${beside}`;
    }
    const pool = `${grouped(Math.floor(poolBytes / kvBytesPerToken))} tokens (${byteSize(poolBytes)})`;
    if (!fits) throw new InputError(`${pool} do not fit ${beside}, ${grouped(tokens[bits]!)} would`);
    return `${pool} ${beside}, ${grouped(tokens[bits]!)} would fit`;
  });
}
