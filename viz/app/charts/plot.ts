import * as Plot from "@observablehq/plot";

export type PlotWithLabel = Plot.PlotOptions & { readonly ariaLabel: string };

/**
 * Draws a plot in the page's font, as a single image for screen readers. `open` is called with the datum that the pointer is at
 * when the plot is clicked.
 */
export function drawPlot<Datum>(body: HTMLElement, options: PlotWithLabel, open?: (datum: Datum) => void): void {
  const svg = Plot.plot({ style: { fontSize: "12.5px", fontFamily: "inherit", background: "none" }, ...options });
  svg.setAttribute("role", "img");
  for (const group of svg.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
  if (open) {
    svg.classList.add("opens");
    svg.addEventListener("click", () => {
      const datum = (svg as { readonly value?: Datum | null }).value;
      if (datum) open(datum);
    });
  }
  body.replaceChildren(svg);
}
