import type { Selection } from "d3-selection";

export type Group = Selection<SVGGElement, unknown, null, undefined>;

/** Draws a box with lines of text beside a point, inside a figure of the given width. */
export function drawTooltip(hover: Group, x: number, y: number, lines: readonly string[], width: number): void {
  const group = hover.append("g").attr("class", "tip");
  const box = group.append("rect").attr("rx", 6);
  const text = group.append("text");
  lines.forEach((each, i) => {
    text
      .append("tspan")
      .attr("x", 0)
      .attr("dy", i === 0 ? 0 : "1.35em")
      .attr("font-weight", i === 0 ? 600 : 400)
      .text(each);
  });
  const size = text.node()!.getBBox();
  box
    .attr("x", size.x - 9)
    .attr("y", size.y - 6)
    .attr("width", size.width + 18)
    .attr("height", size.height + 12);
  const isRight = x + size.width + 32 < width;
  const at = [isRight ? x + 20 : Math.max(10, x - size.width - 20), Math.max(24, y - size.height / 2)];
  group.attr("transform", `translate(${at[0]},${at[1]})`);
}
