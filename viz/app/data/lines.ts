import type { SeriesStyle } from "./series-style.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
  /** Limits of the band about the line. */
  readonly low?: number;
  readonly high?: number;
  /** Tooltip, lines separated by \n. */
  readonly text: string;
}

export interface Line {
  readonly label: string;
  readonly style: SeriesStyle;
  /** Bounds are dashed and have no marks. */
  readonly isBound?: boolean;
  /** Indices of points that are not joined to the one before. */
  readonly breaks?: ReadonlySet<number>;
  /** Points are joined by steps: the value of each point extends to the next one. */
  readonly isStepped?: boolean;
  /** Its only point is drawn as a horizontal line across the figure. */
  readonly isHorizontal?: boolean;
  /** Area of its marks in square pixels, if they are larger than others. */
  readonly markArea?: number;
  readonly points: readonly Point[];
}
