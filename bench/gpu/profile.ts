import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import { version } from "../../lab/package.ts";
import { hardwareNameOf } from "../../sim/cost/hardware.ts";
import type { Operators } from "./operators.ts";
import type { ProfileSizes } from "./shapes.ts";
import { blocksFor, blockTokens, promptOf, type Rows, stepOf } from "./steps.ts";

/** A row of attention.csv.gz: a prefill chunk over cached tokens, beside decodes of equal contexts. */
interface AttentionCase {
  readonly chunk: number;
  readonly cached: number;
  readonly decodes: number;
  readonly context: number;
}

/** Blocks of the pool in which all steps of the profile fit. */
export const profileBlocks = ({ mostContextTokens, tokens, decodes, chunks, sequences }: ProfileSizes): number =>
  blocksFor(mostContextTokens + Math.max(...tokens) + Math.max(...chunks)) + Math.max(...decodes, ...sequences) + 2;

/**
 * Writes the folder DEVICE-MODEL with the times of single operators in µs, one layer: meta.yaml, and below tp1 dense.csv.gz,
 * attention.csv.gz and per_sequence.csv.gz. `rotary_emb` includes the write of keys and values.
 *
 * @param isOver ends the profile early
 * @returns the folder's name and the number of rows of each file
 */
export function writeProfile(
  out: string,
  operators: Operators,
  config: DecoderConfig,
  model: string,
  grid: ProfileSizes,
  isOver: () => boolean,
): { readonly folder: string; readonly rows: Readonly<Record<string, number>> } {
  const { vocabulary } = config;
  const hardware = hardwareNameOf(operators.device.name);
  const folder = `${hardware}-${model.replaceAll(":", "-")}`;
  const rows = { dense: 0, attention: 0, per_sequence: 0 };
  mkdirSync(join(out, folder, "tp1"), { recursive: true });
  const write = (name: keyof typeof rows, head: string, lines: readonly string[]) => {
    writeFileSync(join(out, folder, "tp1", `${name}.csv.gz`), gzipSync(`${[head, ...lines].join("\n")}\n`));
    rows[name] = lines.length;
  };
  const prompt = (tokens: number, cached: number, block: number): Rows => ({
    tokens: promptOf(cached + tokens, vocabulary),
    ...{ from: cached, to: cached + tokens, block },
  });
  const meta = {
    ...{ engine: `kvlab ${version}`, cuda_version: `'${operators.device.driverVersion}'` },
    ...{ cublas_version: operators.cublas?.version ?? "none", gpu: operators.device.name, hardware },
    ...{ profiled_at: `'${new Date().toISOString()}'`, model, variant: "bf16", tp_degrees: "[1]" },
    engine_effective: `{ block_size: ${blockTokens}, max_num_batched_tokens: ${Math.max(...grid.tokens)}, max_num_seqs: ${Math.max(...grid.sequences)} }`,
  };
  const metaLines = Object.entries(meta).map(([name, value]) => `${name}: ${value}`);
  writeFileSync(join(out, folder, "meta.yaml"), `${metaLines.join("\n")}\n`);

  const dense = [];
  for (const tokens of grid.tokens.filter(() => !isOver()))
    for (const [layer, us] of operators.dense(stepOf([prompt(tokens, 0, 0)])))
      dense.push(`${layer},${tokens},${micros(us)}`);
  write("dense", "layer,tokens,time_us", dense);

  const perSequence = [];
  for (const sequences of grid.sequences.filter(() => !isOver())) {
    const step = stepOf(Array.from({ length: sequences }, (_, i) => prompt(1, 0, i)));
    for (const [layer, us] of operators.perSequence(step)) perSequence.push(`${layer},${sequences},${micros(us)}`);
  }
  write("per_sequence", "layer,sequences,time_us", perSequence);

  const attention = [];
  for (const { chunk, cached, decodes, context } of casesOf(grid)) {
    if (isOver()) break;
    const decodeBlocks = blocksFor(context);
    const step = stepOf([
      ...(chunk > 0 ? [prompt(chunk, cached, 0)] : []),
      ...Array.from({ length: decodes }, (_, i) =>
        prompt(1, context - 1, blocksFor(cached + chunk) + i * decodeBlocks),
      ),
    ]);
    attention.push([chunk, cached, decodes, context, micros(operators.attention(step))].join());
  }
  write("attention", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention);
  return { folder, rows };
}

/** Six significant digits. */
const micros = (us: number): number => Number(us.toPrecision(6));

function casesOf({ chunks, decodes, contexts, mostContextTokens }: ProfileSizes): AttentionCase[] {
  const prefills = chunks.flatMap((chunk) =>
    chunk === 0 ? [{ chunk, cached: 0 }] : [0, ...contexts].map((cached) => ({ chunk, cached })),
  );
  const decoding = decodes.flatMap((count) =>
    count === 0 ? [{ decodes: 0, context: 0 }] : contexts.map((context) => ({ decodes: count, context })),
  );
  return prefills
    .flatMap((prefill) => decoding.map((decode) => ({ ...prefill, ...decode })))
    .filter(({ chunk, decodes }) => chunk + decodes > 0)
    .filter(({ cached, decodes, context }) => cached + decodes * context <= mostContextTokens);
}
