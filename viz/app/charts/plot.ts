import * as Plot from "@observablehq/plot";

/** Draws a plot in the page's font, as a single image for screen readers. */
export function drawPlot(body: HTMLElement, options: Plot.PlotOptions & { readonly ariaLabel: string }): void {
  const svg = Plot.plot({ style: { fontSize: "12.5px", fontFamily: "inherit", background: "none" }, ...options });
  svg.setAttribute("role", "img");
  for (const group of svg.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
  body.replaceChildren(svg);
}
