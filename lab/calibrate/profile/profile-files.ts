import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { stringify } from "yaml";
import { version } from "../../package.ts";
import { blockTokens } from "./batch-steps.ts";
import type { AttentionCase, ProfileGrid } from "./grid.ts";

/** Times of an operator profile at one degree of tensor parallelism, in µs. */
export interface ProfileTables {
  /** One call of a layer, by the tokens of the step. */
  readonly dense: readonly { readonly layer: string; readonly tokens: number; readonly us: number }[];
  /** Attention of one layer. */
  readonly attention: readonly (AttentionCase & { readonly us: number })[];
  readonly perSequence: readonly { readonly layer: string; readonly sequences: number; readonly us: number }[];
}

/** Device, model, and how the times were measured: the fields of meta.yaml that are the same for every device come first. */
export interface ProfileMeta {
  readonly hardware: string;
  readonly model: string;
  readonly profiledAt: string;
  /** Further fields. */
  readonly others: Readonly<Record<string, unknown>>;
}

/**
 * Writes a profile that `--cost profile:FOLDER` reads: meta.yaml, and below tp1 dense.csv.gz, attention.csv.gz and
 * per_sequence.csv.gz (sim/profiles/README.md).
 *
 * @returns the number of rows of each file
 */
export function writeProfile(
  folder: string,
  meta: ProfileMeta,
  grid: Pick<ProfileGrid, "tokens" | "sequences">,
  tables: ProfileTables,
): Readonly<Record<"dense" | "attention" | "per_sequence", number>> {
  const { dense, attention, perSequence } = tables;
  mkdirSync(join(folder, "tp1"), { recursive: true });
  const fields = {
    ...{ engine: `kvlab ${version}`, hardware: meta.hardware, model: meta.model, profiled_at: meta.profiledAt },
    tp_degrees: [1],
    engine_effective: {
      block_size: blockTokens,
      max_num_batched_tokens: Math.max(...grid.tokens),
      max_num_seqs: Math.max(...grid.sequences),
    },
    ...meta.others,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${yamlOf(value)}`);
  writeFileSync(join(folder, "meta.yaml"), `${lines.join("\n")}\n`);
  const write = (name: string, head: string, rows: readonly (readonly (string | number)[])[]) => {
    const lines = rows.map((row) => row.join());
    writeFileSync(join(folder, "tp1", `${name}.csv.gz`), gzipSync(`${[head, ...lines].join("\n")}\n`));
    return rows.length;
  };
  return {
    dense: write(
      "dense",
      "layer,tokens,time_us",
      dense.map(({ layer, tokens, us }) => [layer, tokens, micros(us)]),
    ),
    attention: write(
      "attention",
      "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
      attention.map(({ chunk, cached, decodes, context, us }) => [chunk, cached, decodes, context, micros(us)]),
    ),
    per_sequence: write(
      "per_sequence",
      "layer,sequences,time_us",
      perSequence.map(({ layer, sequences, us }) => [layer, sequences, micros(us)]),
    ),
  };
}

/** On one line: lists and objects in JSON, which YAML includes. */
const yamlOf = (value: unknown) => (typeof value === "object" ? JSON.stringify(value) : stringify(value).trimEnd());

/** Six significant digits. */
const micros = (us: number): number => Number(us.toPrecision(6));
