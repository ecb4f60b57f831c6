import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { InputError } from "../../core/errors.ts";
import { Curve } from "../../sim/cost/profile/curve.ts";
import type { ExpertTimes, OperatorProfile } from "../../sim/cost/profile/profile.ts";
import { Surface } from "../../sim/cost/profile/surface.ts";
import { whyUnreadable } from "../../traces/bytes.ts";
import type { ProfileFolder } from "./catalogue.ts";

const unzip = promisify(gunzip);

/**
 * Reads the operator times of a profile at one degree of tensor parallelism: `tpN/` below its folder with dense.csv,
 * attention.csv, per_sequence.csv and, with experts, moe.csv, each of them possibly gzipped; without it that of `tp1`, because whole
 * experts take the same time at every degree. Times in the files are microseconds.
 *
 * @throws InputError naming file and line
 */
export async function readProfile(profile: ProfileFolder, tensorParallel: number): Promise<OperatorProfile> {
  const { folder, skew } = profile;
  const own = join(folder, `tp${tensorParallel}`);
  if (!profile.tensorParallel.includes(tensorParallel))
    throw new InputError(
      `${folder}: has no times for --tp ${tensorParallel}, only for ${profile.tensorParallel.join(", ")}`,
    );
  const filesAt = (folder: string) =>
    readdir(folder).catch((error: unknown) => {
      throw new InputError(`${folder}: ${whyUnreadable(error)}`);
    });
  const read = async <Name extends string>(
    name: string,
    texts: readonly string[],
    numbers: readonly Name[],
    at: string = own,
  ) => {
    const file = (await filesAt(at)).find((one) => one === `${name}.csv` || one === `${name}.csv.gz`);
    if (file === undefined) throw new InputError(`${at}: has no ${name}.csv or ${name}.csv.gz`);
    return await readTable(join(at, file), texts, numbers);
  };
  const dense = await read("dense", ["layer"], ["tokens", "time_us"]);
  const attention = await read("attention", [], ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"]);
  const perSequence = await read("per_sequence", ["layer"], ["sequences", "time_us"]);
  const hasExperts = async (at: string) => (await filesAt(at)).some((file) => file.startsWith("moe.csv"));
  const whole = profile.tensorParallel.includes(1) ? join(folder, "tp1") : own;
  const withExperts = (await hasExperts(own)) ? own : whole;
  const experts = (await hasExperts(withExperts))
    ? await read("moe", [], ["tokens", "activated_experts", "time_us"], withExperts)
    : undefined;
  return {
    name: `${profile.name}/tp${tensorParallel}`,
    dense: curvesBy(dense.layer, dense.tokens, dense.time_us),
    attention: new Surface({
      chunk: attention.prefill_chunk,
      cached: attention.kv_prefill,
      decodes: attention.n_decode,
      context: attention.kv_decode,
      ns: nanos(attention.time_us),
    }),
    skew: skew[tensorParallel] ?? 0,
    padded: profile.padded,
    perSequence: curvesBy(perSequence.layer, perSequence.sequences, perSequence.time_us),
    experts: experts && expertTimes(experts),
  };
}

const nanos = (us: readonly number[]) => us.map((time) => 1e3 * time);

function curvesBy<Key>(keys: readonly Key[], counts: readonly number[], us: readonly number[]): Map<Key, Curve> {
  const rows = new Map<Key, [count: number, ns: number][]>();
  keys.forEach((key, i) => {
    const list = rows.get(key) ?? [];
    rows.set(key, list);
    list.push([counts[i], 1e3 * us[i]]);
  });
  return new Map(
    Array.from(rows, ([key, list]) => {
      list.sort(([a], [b]) => a - b);
      return [
        key,
        new Curve(
          list.map(([count]) => count),
          list.map(([, ns]) => ns),
        ),
      ];
    }),
  );
}

function expertTimes(rows: Record<"tokens" | "activated_experts" | "time_us", readonly number[]>): ExpertTimes {
  const curves = [...curvesBy(rows.activated_experts, rows.tokens, rows.time_us)].sort(([a], [b]) => a - b);
  return { activated: curves.map(([activated]) => activated), byTokens: curves.map(([, curve]) => curve) };
}

type Table<Text extends string, Name extends string> = Record<Text, string[]> & Record<Name, number[]>;

/** Columns of a CSV file. @throws InputError naming file and line */
async function readTable<Text extends string, Name extends string>(
  path: string,
  texts: readonly Text[],
  numbers: readonly Name[],
): Promise<Table<Text, Name>> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}`);
  });
  const text = path.endsWith(".gz")
    ? await unzip(bytes).catch((error: Error) => {
        throw new InputError(`${path}: is not gzip (${error.message})`);
      })
    : bytes;
  const [head, ...lines] = text.toString("utf8").trimEnd().split(/\r?\n/);
  const names = head.split(",");
  const columnOf = (name: string) => {
    const column = names.indexOf(name);
    if (column < 0) throw new InputError(`${path}:1: has no column ${name}, only ${names.join(", ")}`);
    return column;
  };
  if (lines.length === 0) throw new InputError(`${path}: has no rows`);
  const textColumns = texts.map((name) => [name, columnOf(name)] as const);
  const numberColumns = numbers.map((name) => [name, columnOf(name)] as const);
  const table = Object.fromEntries([...texts, ...numbers].map((name) => [name, []])) as unknown as Record<
    string,
    unknown[]
  >;
  lines.forEach((line, i) => {
    const cells = line.split(",");
    for (const [name, column] of textColumns) table[name].push(cells[column] ?? "");
    for (const [name, column] of numberColumns) {
      const value = cells[column]?.trim() ? Number(cells[column]) : Number.NaN;
      if (!(value >= 0 && Number.isFinite(value)))
        throw new InputError(
          `${path}:${i + 2}: ${name} is ${JSON.stringify(cells[column] ?? "")}, expected a number from 0`,
        );
      table[name].push(value);
    }
  });
  return table as Table<Text, Name>;
}
