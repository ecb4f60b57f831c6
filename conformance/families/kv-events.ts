import { KvEventReader } from "../../core/log/kv-events.ts";
import { sglang } from "../../policies/presets/sglang.ts";
import { isOn } from "../caches/case-inputs.ts";
import { DrivenCache, likePreset } from "../caches/driven-cache.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, isRecord, list, shown, tokens, Unsupported } from "../values.ts";
import { pagesOf } from "./radix-tree-locks.ts";

/** SGLang: the KV events of a radix cache for the pages that it stores. */
export const kvEvents: Family = {
  name: "kv-events",
  configKeys: ["events", "page_size"],
  ops: {
    insert: { inputs: ["tokens"], expects: {} },
    events: { inputs: [], expects: { relations: "plain", stored_blocks: "plain" } },
  },
  start({ events, page_size: page }, ops) {
    const pageTokens = page === undefined ? 1 : integer(page, "page_size", 1);
    const blocks = Math.max(1, pagesOf(ops, pageTokens));
    // An insertion stores whole pages up to its end.
    const rules = { "match-limit": "all", "full-hit": "stored-logits" } as const;
    const driven = new DrivenCache(likePreset(sglang, { blockTokens: pageTokens, blocks, rules }));
    return new KvEventsInstance(driven, isOn(events, "events", true));
  },
};

/** A page that was stored: its content and that of the page before it; undefined at the beginning of a prompt. */
interface Page {
  readonly content: number;
  readonly parent: number | undefined;
}

class KvEventsInstance implements Instance {
  readonly #driven: DrivenCache;
  readonly #reader: KvEventReader | undefined;

  constructor(driven: DrivenCache, hasEvents: boolean) {
    this.#driven = driven;
    this.#reader = hasEvents ? new KvEventReader(driven.log) : undefined;
  }

  run(op: string, inputs: Fields): Found {
    if (op === "events") return this.#relations();
    const given = tokens(inputs["tokens"]);
    const whole = given.length - (given.length % this.#driven.blockTokens);
    const sequence = this.#driven.arrive({ prompt: given.slice(0, whole) });
    if (!this.#driven.cache.admit(sequence, whole, this.#driven.now)) throw new Unsupported("the cache is too small");
    this.#driven.compute(sequence);
    this.#driven.finish(sequence);
    return {};
  }

  #relations(): Found {
    const pages: Page[] = [];
    for (const event of this.#reader?.take() ?? []) {
      if (event.type !== "stored") continue;
      event.contents.forEach((content, i) => {
        pages.push({ content, parent: i === 0 ? event.parent : event.contents[i - 1] });
      });
    }
    return {
      stored_blocks: (expected: unknown) => (typeof expected === "boolean" ? pages.length > 0 : pages.length),
      relations: (expected: unknown) => {
        const broken = relationsIn(expected).filter((relation) => !isTrue(relation, pages));
        return broken.length === 0 ? expected : { broken };
      },
    };
  }
}

/** One relation or several: a list of texts or of triples, or an object whose entries are equalities. */
function relationsIn(expected: unknown): unknown[] {
  if (isRecord(expected)) return Object.entries(expected).map(([term, value]) => `${term} == ${String(value)}`);
  return list(expected, "relations").map((relation) => (Array.isArray(relation) ? relation.join(" ") : relation));
}

/**
 * Whether a relation between the stored pages is true, such as "hash[0] != hash[1]", "parent[1] == hash[0]" or
 * "parent[0] is null".
 */
function isTrue(relation: unknown, pages: readonly Page[]): boolean {
  if (typeof relation !== "string") return false;
  const text = relation.toLowerCase();
  const parts = /^(.+?)\s*(===?|!==?|≠|=|<>|\bdiffers from\b|\bequals\b|\bis not\b|\bis\b)\s*(.+)$/.exec(text);
  if (parts === null) throw new Unsupported(`relation ${shown(relation)} is not known`);
  const [a, b] = [termOf(parts[1], pages, relation), termOf(parts[3], pages, relation)];
  return ["!=", "!==", "≠", "<>", "is not", "differs from"].includes(parts[2]) ? a !== b : a === b;
}

const ordinals = ["first", "second", "third", "fourth", "last"];
const nouns = ["parent", "of", "the", "block", "blocks", "page", "pages", "hash", "hashes", "content", "h", "b"];

/** Names, and indices as "[1]", "(1)" or "_1"; from the end only as "[-1]". Anything else may have another meaning. */
const termPattern = /^(?:[a-z\d\s_[\]()]|\.(?=[a-z])|(?<=[a-z])-(?=[a-z])|(?<=[[(]\s*)-(?=\d))+$/;

/** A content id; undefined for the parent of a first page. @throws Unsupported */
function termOf(term: string, pages: readonly Page[], relation: string): number | undefined {
  const words: readonly string[] = termPattern.test(term) ? (term.match(/[a-z]+|-?\d+/g) ?? []) : [];
  if (words.length === 1 && ["null", "none", "nothing", "root"].includes(words[0])) return undefined;
  const [at, ...more] = words.filter((word) => !nouns.includes(word));
  const place = ordinals.includes(at) ? ordinals.indexOf(at) : Number(at);
  if (at === undefined || more.length > 0 || Number.isNaN(place))
    throw new Unsupported(`relation ${shown(relation)} is not known`);
  const page = pages.at(at === "last" ? -1 : place);
  if (page === undefined) throw new Unsupported(`relation ${shown(relation)} is about a page that was not stored`);
  return words.includes("parent") ? page.parent : page.content;
}
