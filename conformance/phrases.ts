import { name, shown, Unsupported } from "./values.ts";

/**
 * Splits a setting in words into phrases at commas, semicolons and brackets: in lower case, with one space for each hyphen,
 * underscore or run of spaces.
 */
export function phrases(value: unknown, what: string): string[] {
  const text = name(value, what)
    .toLowerCase()
    .split(/[,;()[\]]/);
  return text.map((phrase) => phrase.replace(/[-_\s]+/g, " ").trim()).filter((phrase) => phrase !== "");
}

/** Known meanings, each with a pattern for the whole phrase. */
export type Spellings<Meaning extends string> = Readonly<Record<Meaning, RegExp>>;

/**
 * The meanings of the phrases of a setting. @throws Unsupported for an unknown phrase, or if there is none.
 */
export function meanings<Meaning extends string>(
  value: unknown,
  what: string,
  spellings: Spellings<Meaning>,
): Set<Meaning> {
  const known = Object.keys(spellings) as Meaning[];
  const found = phrases(value, what).map((phrase) => {
    const meaning = known.find((each) => spellings[each].test(phrase));
    if (meaning === undefined) throw new Unsupported(`${what} is ${shown(value)}: unknown phrase "${phrase}"`);
    return meaning;
  });
  if (found.length === 0) throw new Unsupported(`${what} is ${shown(value)}, expected words`);
  return new Set(found);
}
