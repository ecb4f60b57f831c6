import { InputError } from "../../core/errors.ts";

/**
 * Name and options of an eviction policy: `ttl:ttl-s=60`, `./mine.ts:share=0.2`; undefined if the text has no options.
 *
 * @throws InputError if a value is not a decimal number, or an option is given twice
 */
export function evictionOptions(
  text: string,
): { readonly name: string; readonly options: Readonly<Record<string, number>> } | undefined {
  const [, name, pairs] = /^(.+?)((?::[^:=]+=[^:=]*)+)$/.exec(text) ?? [];
  if (name === undefined) {
    if (/^[^:./\\]+:/.test(text))
      throw new InputError(`eviction policy "${text}", expected a name, or with options NAME:OPTION=NUMBER`);
    return undefined;
  }
  const options: Record<string, number> = {};
  for (const pair of pairs.split(":").slice(1)) {
    const [option, value] = pair.split("=");
    if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(value))
      throw new InputError(`option ${option} of ${name} is "${value}", expected a number`);
    if (Object.hasOwn(options, option)) throw new InputError(`option ${option} of ${name} is given twice`);
    options[option] = Number(value);
  }
  return { name, options };
}
