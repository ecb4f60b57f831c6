import { grouped } from "../../core/counted.ts";

/** A ratio with four digits, as in papers. */
export const ratio = (value: number) => value.toFixed(4);

/** 0.0712 as 7.1 %. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value >= 9.95 && Math.abs(value - Math.round(value)) < 0.05 ? Math.round(value) : value.toFixed(1)} %`;
}

/** 9.1 ms, 123 ms, 12.3 s. */
export function milliseconds(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toPrecision(2)} ms`;
}

/** 28850000 as 28.9 million. */
export function approximate(value: number): string {
  for (const [size, suffix] of [
    [1e9, " billion"],
    [1e6, " million"],
    [1e3, ",000"],
  ] as const) {
    if (value < size) continue;
    const scaled = value / size;
    return suffix === ",000"
      ? grouped(value)
      : `${scaled >= 100 ? Math.round(scaled) : scaled.toPrecision(3)}${suffix}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** 0.51 ms, 51.2 ms, 5.12 s, 512 s, 5.12 h: three significant digits. */
export function duration(ms: number): string {
  const [value, unit] = ms < 999.5 ? [ms, "ms"] : ms < 9_999_500 ? [ms / 1000, "s"] : [ms / 3_600_000, "h"];
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}
