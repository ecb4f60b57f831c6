import { grouped } from "../../core/counted.ts";
import type { AgeUnit, Distribution, Residency } from "../../lab/explain/explanation.ts";
import { residencyNames, unitOf } from "../../lab/explain/residency.ts";
import { percent } from "../../lab/output/numbers.ts";
import { ageValue } from "./ages.ts";
import { aligned, colors, shareBar } from "./table.ts";

const labels: Readonly<Record<(typeof residencyNames)[number], string>> = {
  ageAtHit: "age at hit",
  ageAtEviction: "age at eviction",
  lifetime: "lifetime",
  hitsPerBlock: "hits per block",
  ageAtMiss: "age at miss (tokens)",
};

/** The histograms of residency: quantiles, and bars of the ages at hits and evictions. */
export function residencyText(residency: Residency): string {
  const { ageUnit } = residency;
  const unit = ageUnit === "ns" ? "time since the last use" : "requests since the last use";
  const head = ["", "count", "p10", "p50", "p90", "p99", "max"].map((name) => colors.dim(name));
  const rows = residencyNames
    .filter((name) => residency[name].count > 0)
    .map((name) => {
      const { count, p10, p50, p90, p99, max } = residency[name];
      const text = (value: number) => (unitOf(name, ageUnit) === "hits" ? grouped(value) : ageValue(value, ageUnit));
      return [labels[name], grouped(count), ...[p10, p50, p90, p99, max].map(text)];
    });
  if (rows.length === 0) return "No block was stored.";
  const { ageAtHit, ageAtEviction } = residency;
  return [
    colors.bold(`Residency of blocks; ages are ${unit}`),
    aligned([head, ...rows], "lrrrrrr"),
    ...(ageAtHit.count + ageAtEviction.count > 0 ? ["", bars(ageAtHit, ageAtEviction, ageUnit)] : []),
  ].join("\n");
}

const barWidth = 18;

/** Both distributions over the same bins. */
function bars(hits: Distribution, evictions: Distribution, unit: AgeUnit): string {
  const bins = [...new Map([...hits.bins, ...evictions.bins].map((bin) => [bin.from, bin])).values()].sort(
    (a, b) => a.from - b.from,
  );
  const shareIn = ({ bins: own, count }: Distribution, from: number) =>
    (own.find((bin) => bin.from === from)?.count ?? 0) / Math.max(1, count);
  const largest = Math.max(...bins.flatMap(({ from }) => [shareIn(hits, from), shareIn(evictions, from)]));
  const cells = (share: number) => [
    share === 0 ? "" : percent(share),
    colors.cyan(shareBar(share / largest, barWidth).padEnd(barWidth)),
  ];
  const head = ["age", "hits", "", "evictions", ""].map((name) => colors.dim(name));
  const rows = bins.map(({ from, below }) => [
    binText(from, below, unit),
    ...cells(shareIn(hits, from)),
    ...cells(shareIn(evictions, from)),
  ]);
  return aligned([head, ...rows], "rrlrl");
}

function binText(from: number, below: number, unit: AgeUnit): string {
  if (unit === "ns") return from === 0 ? "0" : `${edgeText(from)}–${edgeText(below)}`;
  return below - from === 1 ? grouped(from) : `${grouped(from)}–${grouped(below - 1)}`;
}

/** 20 ms, 1 s, 500 s: the edges of bins have one digit. */
function edgeText(ns: number): string {
  const [size, name] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${grouped(ns / size)} ${name}`;
}
