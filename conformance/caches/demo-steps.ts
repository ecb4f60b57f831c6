import { integer, isRecord, name, record, shown, tokens, Unsupported } from "../values.ts";

/** A step of a scenario of the block-trie demo. */
export type DemoStep =
  | { readonly do: "allocate" | "decode"; readonly req: string; readonly tokens: readonly number[] }
  | { readonly do: "free"; readonly req: string }
  | { readonly do: "evict"; readonly blocks: number };

const verbs: Readonly<Record<string, DemoStep["do"]>> = {
  demo_allocate: "allocate",
  allocate: "allocate",
  alloc: "allocate",
  demo_free: "free",
  free: "free",
  demo_evict: "evict",
  evict: "evict",
  append: "decode",
  decode: "decode",
  grow: "decode",
  extend: "decode",
};

/**
 * Parses steps: objects with `op`, lists (`["allocate", "a", [1, 2]]`, `["evict", 2]`), or text (`"allocate a [1, 2]"`).
 * @throws Unsupported
 */
export function demoSteps(steps: readonly unknown[]): DemoStep[] {
  return steps.map((step) => {
    if (isRecord(step)) return fromFields(step);
    const [verb, ...given] = typeof step === "string" ? words(step) : Array.isArray(step) ? step : [];
    const action = actionOf(verb, step);
    const [first, second, ...more] = given;
    if (more.length > 0) throw new Unsupported(`step ${shown(step)} has unknown arguments`);
    if (action === "evict") return { do: action, blocks: integer(first ?? 1, "blocks to evict") };
    if (action === "free" && second === undefined) return { do: action, req: name(first, "req") };
    if (action === "free") throw new Unsupported(`step ${shown(step)} has unknown arguments`);
    return { do: action, req: name(first, "req"), tokens: tokensOf(second) };
  });
}

function fromFields(step: unknown): DemoStep {
  const { op, req, tokens: given, n, ...more } = record(step, "a step");
  if (Object.keys(more).length > 0) throw new Unsupported(`step ${shown(step)} has unknown arguments`);
  const action = actionOf(op, step);
  if (action === "evict") return { do: action, blocks: integer(n ?? 1, "n") };
  if (action === "free") return { do: action, req: name(req, "req") };
  return { do: action, req: name(req, "req"), tokens: tokensOf(given) };
}

function actionOf(verb: unknown, step: unknown): DemoStep["do"] {
  if (typeof verb === "string" && Object.hasOwn(verbs, verb)) return verbs[verb];
  throw new Unsupported(`step ${shown(step)} is not known`);
}

const tokensOf = (given: unknown): number[] => tokens(typeof given === "number" ? [given] : given);

/** A verb, then names, numbers and lists. */
function words(step: string): unknown[] {
  const [verb, ...given] = step.match(/\[[^\]]*\]|[^\s,():=]+/g) ?? [];
  return [verb, ...given.map((word) => parsed(word))];
}

function parsed(word: string): unknown {
  if (/^\d+$/.test(word)) return Number(word);
  if (!/^\[\s*(\d+\s*(,\s*\d+\s*)*)?\]$/.test(word)) return word;
  return (word.match(/\d+/g) ?? []).map(Number);
}
