import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { SizeDetail, SizesRow } from "../api.ts";
import type { Inside } from "./inside.ts";
import { Refusal } from "./refusal.ts";
import { name, oneLine, type Runs, traceName } from "./runs.ts";

const metric = z.enum(["ttftMs", "tpotMs", "e2eMs"]);

const cluster = z.object({
  gpu: name,
  tensorParallel: z.int().positive(),
  replicas: z.int().positive(),
  gpus: z.int().positive(),
  preset: name,
  eviction: name,
  router: name.nullable(),
  costPerHour: z.number(),
  met: z.boolean(),
  objectives: z
    .array(z.object({ metric, percentile: z.number(), limitMs: z.number(), valueMs: z.number().nullable() }))
    .max(3),
  goodputRequestsPerS: z.number(),
  hitRatio: z.number(),
  utilisation: z.number(),
  onFront: z.boolean(),
  chosen: z.boolean(),
});

/** The fields of a document of a sizing (schema size/1) that the page shows. */
const saved = z.object({
  schema: z.literal("size/1"),
  trace: z.object({ files: z.array(z.string().max(4096)).max(10_000), requests: z.int().nonnegative() }),
  model: name,
  prices: z.object({ currency: name, file: z.string().max(4096).nullable() }),
  clusters: z.array(cluster).max(100_000),
});

const mostBytes = 64 * 2 ** 20;

/** The answers that `kvlab size --out` has saved in the folder of runs, the newest first; unreadable ones are left out. */
export async function listSizes(runs: Runs): Promise<SizesRow[]> {
  const rows: SizesRow[] = [];
  for (const { id, file } of await runs.foldersWith("size.json")) {
    const read = await readSize(file).catch(() => undefined);
    if (read !== undefined) rows.push(rowOf(id, file, read));
  }
  return rows.sort((a, b) => b.savedAtMs - a.savedAtMs || (a.id < b.id ? -1 : 1));
}

/** @throws Refusal if there is no such answer, or it cannot be read */
export async function sizeDetail(runs: Runs, id: string): Promise<SizeDetail> {
  const file = await runs.file(id, "size.json");
  if (!file) throw new Refusal(404, `${JSON.stringify(id.slice(0, 100))} has no size.json`);
  try {
    const read = await readSize(file);
    const { prices, clusters } = read;
    return { ...rowOf(id, file, read), currency: prices.currency, arePricesAssumed: prices.file === null, clusters };
  } catch (error) {
    throw new Refusal(422, `size.json: ${oneLine(error)}`);
  }
}

const rowOf = (id: string, { mtimeMs }: Inside, { trace, model }: z.infer<typeof saved>): SizesRow => ({
  ...{ id, savedAtMs: mtimeMs, trace: traceName(trace.files), requests: trace.requests, model },
});

async function readSize({ path, size }: Inside): Promise<z.infer<typeof saved>> {
  if (size > mostBytes) throw new Error(`it has ${size} bytes, expected at most ${mostBytes}`);
  const parsed = saved.safeParse(JSON.parse(await readFile(path, "utf8")));
  if (parsed.success) return parsed.data;
  const [{ path: field, message }] = parsed.error.issues;
  throw new Error(`${field.join(".") || "document"}: ${message}`);
}
