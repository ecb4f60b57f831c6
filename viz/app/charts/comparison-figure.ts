import type { Comparison } from "../data/comparison.ts";

/** A figure or table of a comparison; `show` is called again when the runs change. */
export interface ComparisonFigure {
  readonly element: HTMLElement;
  show(comparison: Comparison): void;
}
