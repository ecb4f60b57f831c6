import { symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolStar, symbolTriangle } from "d3-shape";
import type { SeriesStyle } from "../data/series-style.ts";
import type { Group } from "./tooltip.ts";

/** By variant. */
const shapes = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross, symbolStar];

/** The path of a series' marker around the origin; `area` in square pixels. */
export const drawMarker = ({ variant }: SeriesStyle, area = 42): string =>
  symbol(shapes[variant % shapes.length], area)() ?? "";

/** Width of a sample of a line beside its label, pixels. */
export const sampleWidth = 22;

/** Draws a sample of a line, beside the origin. */
export function drawSample(
  group: Group,
  style: SeriesStyle,
  dash: string | null,
  isLeft: boolean,
  hasMarker: boolean,
): void {
  group.selectAll("*").remove();
  group.attr("transform", isLeft ? `translate(${-sampleWidth},0)` : null);
  group
    .append("line")
    .attr("x2", sampleWidth)
    .attr("stroke", style.colour)
    .attr("stroke-width", 2.25)
    .attr("stroke-dasharray", dash);
  if (hasMarker)
    group
      .append("path")
      .attr("d", drawMarker(style))
      .attr("fill", style.colour)
      .attr("transform", `translate(${sampleWidth / 2},0)`);
}
