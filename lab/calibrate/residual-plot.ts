import type { Fit } from "../../sim/cost/fit.ts";
import { kindLabels, type Measured, type MeasuredKind } from "./measured-steps.ts";

const colours: Readonly<Record<MeasuredKind, string>> = {
  prompts: "#0969da",
  answers: "#bc4c00",
  both: "#1a7f37",
  "first token": "#0969da",
  "later tokens": "#bc4c00",
};
const [width, height] = [760, 440];
const margin = { top: 84, right: 24, bottom: 52, left: 64 };
/** Larger residuals are drawn at the edge: ±100 %. */
const widest = 1;

/** An SVG of measured ÷ fitted − 1 against the fitted time, with a point for every step. */
export function residualPlot(about: string, steps: readonly Measured[], { fittedNs }: Fit): string {
  const least = Math.floor(Math.log10(Math.min(...fittedNs)));
  const most = Math.max(least + 1, Math.ceil(Math.log10(Math.max(...fittedNs))));
  const x = (ns: number) =>
    margin.left + ((Math.log10(ns) - least) / (most - least)) * (width - margin.left - margin.right);
  const y = (share: number) => {
    const within = Math.max(-widest, Math.min(widest, share));
    return margin.top + ((widest - within) / (2 * widest)) * (height - margin.top - margin.bottom);
  };
  const parts: string[] = [];
  for (const share of [-1, -0.5, -0.25, 0, 0.25, 0.5, 1]) {
    const colour = share === 0 ? "#24292f" : "#d8dee4";
    parts.push(
      `<line x1="${margin.left}" x2="${width - margin.right}" y1="${y(share)}" y2="${y(share)}" stroke="${colour}"/>`,
      `<text x="${margin.left - 8}" y="${y(share) + 4}" text-anchor="end">${share > 0 ? "+" : ""}${100 * share} %</text>`,
    );
  }
  for (let power = least; power <= most; power++)
    parts.push(
      `<text x="${x(10 ** power)}" y="${height - margin.bottom + 20}" text-anchor="middle">${Number((10 ** (power - 6)).toPrecision(1))}</text>`,
    );
  steps.forEach(({ ns, kind }, i) => {
    const [cx, cy] = [x(fittedNs[i]).toFixed(1), y(ns / fittedNs[i] - 1).toFixed(1)];
    parts.push(`<circle cx="${cx}" cy="${cy}" r="2" fill="${colours[kind]}" fill-opacity="0.35"/>`);
  });
  [...new Set(steps.map(({ kind }) => kind))].sort().forEach((kind, i) => {
    parts.push(
      `<circle cx="${margin.left + 8 + 110 * i}" cy="${margin.top - 14}" r="4" fill="${colours[kind]}"/>`,
      `<text x="${margin.left + 18 + 110 * i}" y="${margin.top - 10}">${kindLabels[kind]}</text>`,
    );
  });
  const middle = (margin.left + width - margin.right) / 2;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f" role="img" aria-label="Residuals of a cost model">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="${margin.left}" y="24" font-size="15" font-weight="600">Measured ÷ fitted − 1</text>
<text x="${margin.left}" y="44">${escaped(about)}</text>
${parts.join("\n")}
<text x="${middle}" y="${height - 10}" text-anchor="middle">fitted, milliseconds</text>
</svg>
`;
}

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
