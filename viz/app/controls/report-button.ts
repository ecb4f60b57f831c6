import { getReport } from "../data/server.ts";
import { announce, h } from "./dom.ts";
import { download } from "./download.ts";

/** A button that saves the comparison of runs as one HTML file. */
export function reportButton(idsOf: () => readonly string[], metricOf: () => string): HTMLElement {
  const problem = h("span", { class: "field-error", role: "alert" });
  const click = async () => {
    problem.textContent = "";
    button.disabled = true;
    try {
      const html = await getReport({ runs: idsOf(), metric: metricOf() });
      download("comparison.html", new Blob([html], { type: "text/html" }));
      announce("Comparison saved");
    } catch (error) {
      problem.textContent = (error as Error).message;
    } finally {
      button.disabled = false;
    }
  };
  const button = h("button", { type: "button", click }, "Save as HTML");
  return h("div", { class: "actions" }, button, problem);
}
