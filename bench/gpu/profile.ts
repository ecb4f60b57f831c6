import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import type { Operators } from "./operators.ts";
import { short } from "./report.ts";
import type { ProfileSizes } from "./shapes.ts";
import { blocksFor, promptOf, type Rows, stepOf } from "./steps.ts";

/** A row of attention.csv: a prefill chunk over cached tokens, beside decodes of equal contexts. */
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
 * Writes dense.csv, attention.csv, per_sequence.csv and meta.yaml: the times of single operators in µs, one layer.
 *
 * @param isOver ends the profile early
 * @returns the number of rows of each file
 */
export function writeProfile(
  folder: string,
  operators: Operators,
  config: DecoderConfig,
  grid: ProfileSizes,
  meta: Readonly<Record<string, string | number>>,
  isOver: () => boolean,
): Readonly<Record<string, number>> {
  const { vocabulary } = config;
  const rows = { dense: 0, attention: 0, per_sequence: 0 };
  const write = (name: keyof typeof rows, head: string, lines: readonly string[]) => {
    writeFileSync(join(folder, `${name}.csv`), `${[head, ...lines].join("\n")}\n`);
    rows[name] = lines.length;
  };
  const prompt = (tokens: number, cached: number, block: number): Rows => ({
    tokens: promptOf(cached + tokens, vocabulary),
    ...{ from: cached, to: cached + tokens, block },
  });
  const dense = [];
  for (const tokens of grid.tokens.filter(() => !isOver()))
    for (const [layer, us] of operators.dense(stepOf([prompt(tokens, 0, 0)])))
      dense.push(`${layer},${tokens},${short(us)}`);
  write("dense", "layer,tokens,time_us", dense);

  const perSequence = [];
  for (const sequences of grid.sequences.filter(() => !isOver())) {
    const step = stepOf(Array.from({ length: sequences }, (_, i) => prompt(1, 0, i)));
    for (const [layer, us] of operators.perSequence(step)) perSequence.push(`${layer},${sequences},${short(us)}`);
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
    attention.push([chunk, cached, decodes, context, short(operators.attention(step))].join());
  }
  write("attention", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention);
  const lines = Object.entries(meta).map(([name, value]) => `${name}: ${value}`);
  writeFileSync(join(folder, "meta.yaml"), `${lines.join("\n")}\n`);
  return rows;
}

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
