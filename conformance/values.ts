/** A value, shape or field that a family cannot interpret: the case is skipped, never passed. */
export class Unsupported extends Error {
  override name = "Unsupported";
}

/** A value for messages, truncated if it is long. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 160 ? text : `${text.slice(0, 150)}… (${text.length} characters)`;
}

const refuse = (what: string, value: unknown, expected: string): never => {
  throw new Unsupported(`${what} is ${shown(value)}, expected ${expected}`);
};

export type Fields = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A whole number of at least `least`. @throws Unsupported */
export function integer(value: unknown, what: string, least = 0): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number;
  return refuse(what, value, `a whole number from ${least}`);
}

/** Any finite number. @throws Unsupported */
export function number(value: unknown, what: string): number {
  if (typeof value !== "number") return refuse(what, value, "a number");
  // JSON numbers may be too large for a double; JSON.stringify would print such a number as null.
  return Number.isFinite(value) ? value : refuse(what, String(value), "a finite number");
}

/** A name; a number is converted to its digits. @throws Unsupported */
export function name(value: unknown, what: string): string {
  if (typeof value === "string") return value;
  return Number.isSafeInteger(value) ? String(value) : refuse(what, value, "a name");
}

/** @throws Unsupported */
export function list(value: unknown, what: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(what, value, "a list");
}

/** @throws Unsupported */
export function record(value: unknown, what: string): Fields {
  return isRecord(value) ? value : refuse(what, value, "an object");
}

/** An object with these fields only, besides `comment` and `notes`. @throws Unsupported */
export function recordOf(value: unknown, what: string, known: readonly string[]): Fields {
  const fields = record(value, what);
  const unknown = Object.keys(fields).find((key) => !known.includes(key) && !isRemark(key));
  if (unknown !== undefined) throw new Unsupported(`${what} has the unknown field "${unknown}"`);
  return fields;
}

export const isRemark = (field: string) => field === "comment" || field === "notes";

/** One of these. @throws Unsupported */
export function oneOf<T extends string | number | boolean>(value: unknown, what: string, all: readonly T[]): T {
  return all.find((each) => each === value) ?? refuse(what, value, all.map(shown).join(" or "));
}

const maxTokens = 2 ** 24;

/**
 * Tokens in the notation of the cases: a list, `{"range": [a, b)}`, `{"rle": [[token, count], …]}`, or
 * `{"concat": [tokens, …]}` of any of these. @throws Unsupported
 */
export function tokens(value: unknown, what = "tokens"): number[] {
  const found: number[] = [];
  collect(value, what, found);
  return found;
}

function collect(value: unknown, what: string, into: number[]): void {
  if (Array.isArray(value)) {
    for (const each of value) into.push(token(each, what));
    return;
  }
  const parts = isRecord(value) ? Object.entries(value) : [];
  if (parts.length !== 1) refuse(what, value, "a list of tokens, or one of range, rle and concat");
  const [kind, content] = parts[0];
  const items = list(content, `${what}.${kind}`);
  if (kind === "range") {
    const [from, to] = pair(items, `${what}.range`);
    if (to < from) refuse(`${what}.range`, items, "[a, b) with a up to b");
    checkTokenCount(into.length + to - from, what);
    for (let each = token(from, what); each < to; each++) into.push(each);
  } else if (kind === "rle") {
    for (const run of items) {
      const [each, count] = pair(run, `a run of ${what}.rle`);
      checkTokenCount(into.length + count, what);
      for (let i = 0; i < count; i++) into.push(token(each, what));
    }
  } else if (kind === "concat") {
    for (const part of items) collect(part, what, into);
  } else {
    refuse(what, value, "a list of tokens, or one of range, rle and concat");
  }
}

function token(value: unknown, what: string): number {
  const found = integer(value, `a token of ${what}`);
  return found < 2 ** 32 ? found : refuse(`a token of ${what}`, value, "one below 2^32");
}

function pair(value: unknown, what: string): [number, number] {
  const items = list(value, what);
  if (items.length !== 2) refuse(what, value, "two numbers");
  return [integer(items[0], what), integer(items[1], what)];
}

function checkTokenCount(count: number, what: string): void {
  if (count > maxTokens) throw new Unsupported(`${what} has ${count} tokens, expected at most ${maxTokens}`);
}
