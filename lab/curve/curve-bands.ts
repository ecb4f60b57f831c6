import { rangeOf } from "../compare/band-document.ts";
import { bandGroups, commonRules } from "../compare/bands.ts";
import type { Curve, CurveBand, CurveDocument } from "./curve-document.ts";

/** All curves of a document in bands, in the order of their first curves. */
export function curveBands({
  curves,
  metric,
  sample,
}: Pick<CurveDocument, "curves" | "metric" | "sample">): CurveBand[] {
  const nameOf = ({ preset, index, eviction }: Curve) => JSON.stringify([preset, index, eviction]);
  return bandGroups(curves, (one, other) => nameOf(one) === nameOf(other)).map(({ members, over }): CurveBand => {
    const all = members.map((member) => curves[member]);
    const [{ preset, index, eviction, points }] = all;
    return {
      ...(preset !== undefined && { preset }),
      ...{ index, eviction, rules: commonRules(all[0], over), curves: members, over },
      points: points.map(({ blocks }, i) => {
        const limits = all.flatMap(({ points }) =>
          sample ? [points[i].low, points[i].high] : [points[i].hitRatio[metric]!],
        );
        return { blocks, ...rangeOf(limits) };
      }),
    };
  });
}
