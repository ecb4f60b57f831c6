/** How a series is drawn. Colour alone does not identify it: its dashes and its markers do, too. */
export interface SeriesStyle {
  readonly colour: string;
  /** An index of `dashes` and of the markers. */
  readonly variant: number;
}

const colourCount = 8;

/** `stroke-dasharray` by variant. */
export const dashes: readonly (string | null)[] = [null, "8 4", "2 3", "9 3 2 3", "14 4", "5 2 1 2"];

/** Bounds are grey and have no markers. */
export const boundStyle: SeriesStyle = { colour: "var(--bound)", variant: 0 };

/**
 * Styles by label, in the given order: a colour for each group (a system or a policy) and a variant for each label of a group.
 * With a single group, each label has a colour. Groups beyond the number of colours repeat them with other variants.
 */
export function seriesStyles(labels: readonly (readonly [label: string, group: string])[]): Map<string, SeriesStyle> {
  const isOneGroup = new Set(labels.map(([, group]) => group)).size === 1;
  const sizes = new Map<string, number>();
  const styles = new Map<string, SeriesStyle>();
  for (const [label, ofGroup] of labels) {
    if (styles.has(label)) continue;
    const group = isOneGroup ? label : ofGroup;
    const rank = sizes.get(group) ?? 0;
    sizes.set(group, rank + 1);
    const number = [...sizes.keys()].indexOf(group);
    const variant = (rank + Math.floor(number / colourCount)) % dashes.length;
    styles.set(label, { colour: `var(--c${number % colourCount})`, variant });
  }
  return styles;
}
