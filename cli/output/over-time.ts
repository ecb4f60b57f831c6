import type { TimeSeries } from "../../core/serving/time-series.ts";
import { approximate, duration, percent } from "../../lab/output/numbers.ts";
import { aligned, colors } from "./table.ts";

const bars = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const width = 44;

/** A bar chart for each of the main series, from the first interval to the last; all scales start at 0. */
export function overTime(series: TimeSeries): string {
  const { count, intervalNs, levels, counts } = series;
  if (count < 2) return "";
  const columns = Math.min(width, count);
  /** Sums over the intervals of each column; the number of intervals per column may differ by one. */
  const sums = (values: Float64Array) =>
    Array.from({ length: columns }, (_, i) => {
      let sum = 0;
      const to = Math.ceil(((i + 1) * count) / columns);
      for (let at = Math.floor((i * count) / columns); at < to; at++) sum += values[at];
      return sum;
    });
  const lengths = sums(Float64Array.from({ length: count }, (_, i) => series.lengthNs(i)));
  const perNs = (values: Float64Array) => sums(values).map((sum, i) => sum / lengths[i]);
  const blocks = perNs(levels.freeBlocks).map((free, i) => {
    const used = [levels.privateBlocks, levels.idleBlocks, levels.heldBlocks].map((each) => perNs(each)[i]);
    return used.reduce((sum, each) => sum + each, 0) / (free + used.reduce((sum, each) => sum + each, 0) || 1);
  });
  const hits = sums(counts.hitTokens);
  const ratios = sums(counts.lookupTokens).map((looked, i) => (looked === 0 ? 0 : hits[i] / looked));
  const tokensPerS = perNs(counts.generatedTokens).map((tokens) => tokens * 1e9);
  const rows = [
    line("waiting", perNs(levels.waiting), approximate),
    line("running", perNs(levels.running), approximate),
    line("blocks filled", blocks, percent),
    line("hit ratio", ratios, percent),
    line("output tokens", tokensPerS, (value) => `${approximate(value)}/s`),
  ];
  const title = `${colors.bold("Over time")} ${colors.dim(`(0 to ${duration((count * intervalNs) / 1e6)}; bars are means, the number is the maximum)`)}`;
  return `${title}\n${aligned(rows, "llr")}`;
}

function line(name: string, values: readonly number[], text: (value: number) => string): string[] {
  const most = Math.max(...values);
  const bar = (value: number) => bars[most === 0 ? 0 : Math.min(7, Math.floor((value / most) * 8))];
  return [name, colors.cyan(values.map(bar).join("")), text(most)];
}
