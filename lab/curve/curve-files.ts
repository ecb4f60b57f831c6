import { writeFile } from "node:fs/promises";
import { counted, grouped } from "../../core/counted.ts";
import { writeCurves } from "../output/parquet.ts";
import { writeFiles } from "../output/written-files.ts";
import { type Chart, type Curve as ChartCurve, chartSvg, mostCurves } from "../traces/plots/chart.ts";
import { curveBands } from "./curve-bands.ts";
import type { CurveBand, CurveDocument } from "./curve-document.ts";

/**
 * Writes `curves.json` (the document), `curves.parquet` (a row for each point) and `curves.svg` to a folder, and replaces those that it
 * has. With more curves than a chart shows there are several: `curves-1.svg` … Returns the paths.
 *
 * @throws InputError if a file cannot be written
 */
export async function writeCurveFiles(folder: string, name: string, report: CurveDocument, signal?: AbortSignal) {
  const files = new Map<string, (path: string) => Promise<void>>();
  files.set("curves.json", (path) => writeFile(path, `${JSON.stringify(report, undefined, 2)}\n`));
  files.set("curves.parquet", (path) => writeCurves({ path, signal }, report));
  for (const [file, svg] of chartsOf(name, report)) files.set(file, (path) => writeFile(path, svg));
  return await writeFiles(folder, files);
}

/** By file: the SVG document. */
function chartsOf(name: string, report: CurveDocument): [file: string, svg: string][] {
  const bands = curveBands(report);
  const count = Math.ceil(bands.length / mostCurves);
  return Array.from({ length: count }, (_, i) => {
    const shown = bands.slice(i * mostCurves, (i + 1) * mostCurves);
    return [count === 1 ? "curves.svg" : `curves-${i + 1}.svg`, chartSvg(chartOf(name, report, bands, shown))];
  });
}

/** A chart of some of the bands; its axes and labels are those of all. */
function chartOf(
  name: string,
  { curves, metric, distinctBlocks, blockTokens, sample }: CurveDocument,
  all: readonly CurveBand[],
  bands: readonly CurveBand[],
): Chart {
  const sizes = curves[0].points.map(({ blocks }) => blocks);
  const [least, most] = [sizes[0], sizes[sizes.length - 1]];
  const highest = Math.max(...all.flatMap(({ points }) => points.map(({ high }) => high)));
  const content = `${counted(distinctBlocks, "distinct block")} of ${grouped(blockTokens)} tokens`;
  const sampled = sample ? `; from ${counted(sample.requests, "request")}` : "";
  const over = [...new Set(all.flatMap((band) => band.over))].map((axis) => (axis === "seed" ? "seeds" : axis));
  const across = over.length > 0 ? ` over ${over.join(" and ")}` : "";
  const banded = sample ? `; bands: 95 % intervals${across}` : across && `; bands: lowest to highest${across}`;
  const names = [
    ({ preset }: CurveBand) => preset,
    ({ index }: CurveBand) => index,
    ({ rules }: CurveBand) => rules.join(" "),
  ];
  const differing = names.filter((of) => new Set(all.map(of)).size > 1);
  const labelOf = (band: CurveBand) => [band.eviction, ...differing.map((of) => of(band))].filter(Boolean).join(", ");
  const meanAt = (members: readonly number[], i: number) =>
    members.reduce((sum, member) => sum + curves[member].points[i].hitRatio[metric]!, 0) / members.length;
  return {
    title: `Hit ratio by cache size: ${name}`,
    subtitle: `${content}${sampled}${banded}`,
    x: { label: "cache size, blocks", scale: "log", domain: [least, most > least ? most : least + 1] },
    y: { label: `hit ratio (${metric})`, scale: "linear", domain: [0, Math.min(1, 1.05 * highest) || 1] },
    curves: bands.map((band): ChartCurve => {
      const hasBand = sample !== undefined || band.over.length > 0;
      return {
        label: labelOf(band),
        shape: "line",
        points: sizes.map((blocks, i) => [blocks, meanAt(band.curves, i)]),
        ...(hasBand && { band: band.points.map(({ blocks, low, high }) => [blocks, low, high] as const) }),
      };
    }),
  };
}
