import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { CurvesDetail, CurvesRow } from "../api.ts";
import type { Inside } from "./inside.ts";
import { Refusal } from "./refusal.ts";
import { byDefinition, name, oneLine, type Runs, traceName } from "./runs.ts";

/** The fields of a document of curves (schema curve/1) that the page shows. */
const saved = z.object({
  schema: z.literal("curve/1"),
  trace: z.object({ files: z.array(z.string().max(4096)).max(10_000), requests: z.int().nonnegative() }),
  blockTokens: z.int().positive(),
  distinctBlocks: z.int().nonnegative(),
  metric: name,
  sample: z.object({ rate: z.number() }).optional(),
  curves: z
    .array(
      z.object({
        preset: name.optional(),
        index: name,
        eviction: name,
        rules: z.array(name).max(100),
        points: z
          .array(
            z.object({
              blocks: z.int().positive(),
              hitRatio: byDefinition(z.number()),
              low: z.number(),
              high: z.number(),
            }),
          )
          .max(100_000),
      }),
    )
    .max(1000),
  bands: z
    .array(
      z.object({
        curves: z.array(z.int().nonnegative()).min(1).max(1000),
        over: z.array(name).max(10),
        rules: z.array(name).max(100),
      }),
    )
    .max(1000)
    .optional(),
});

const mostBytes = 64 * 2 ** 20;

/** The curves that `kvlab curve --out` has saved in the folder of runs, the newest first; unreadable ones are left out. */
export async function listCurves(runs: Runs): Promise<CurvesRow[]> {
  const rows: CurvesRow[] = [];
  for (const { id, file } of await runs.foldersWith("curves.json")) {
    const read = await readCurves(file).catch(() => undefined);
    if (read === undefined) continue;
    const { files, requests } = read.trace;
    rows.push({ id, savedAtMs: file.mtimeMs, trace: traceName(files), requests });
  }
  return rows.sort((a, b) => b.savedAtMs - a.savedAtMs || (a.id < b.id ? -1 : 1));
}

/** @throws Refusal if there are no such curves, or they cannot be read */
export async function curvesDetail(runs: Runs, id: string): Promise<CurvesDetail> {
  const file = await runs.file(id, "curves.json");
  if (!file) throw new Refusal(404, `${JSON.stringify(id.slice(0, 100))} has no curves.json`);
  try {
    const { trace, blockTokens, distinctBlocks, metric, sample, curves, bands } = await readCurves(file);
    const row = { id, savedAtMs: file.mtimeMs, trace: traceName(trace.files), requests: trace.requests };
    return {
      ...row,
      blockTokens,
      distinctBlocks,
      metric,
      isSampled: sample !== undefined,
      curves,
      bands: bands ?? alone(curves),
    };
  } catch (error) {
    throw new Refusal(422, `curves.json: ${oneLine(error)}`);
  }
}

/** Each curve for itself. */
const alone = (curves: CurvesDetail["curves"]) => curves.map(({ rules }, i) => ({ curves: [i], over: [], rules }));

async function readCurves({ path, size }: Inside): Promise<z.infer<typeof saved>> {
  if (size > mostBytes) throw new Error(`it has ${size} bytes, expected at most ${mostBytes}`);
  const parsed = saved.safeParse(JSON.parse(await readFile(path, "utf8")));
  if (parsed.success) {
    const { bands = [], curves } = parsed.data;
    const missing = bands.flatMap((band) => band.curves).find((number) => number >= curves.length);
    if (missing === undefined) return parsed.data;
    throw new Error(`bands: curve ${missing} of ${curves.length}`);
  }
  const [{ path: field, message }] = parsed.error.issues;
  throw new Error(`${field.join(".") || "document"}: ${message}`);
}
