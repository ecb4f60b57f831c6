import type { Random } from "../../core/random.ts";
import { zipf } from "../random.ts";
import { common, count, generator, perSecond, share, tokens, zipfExponent } from "./generator.ts";
import { documentSigma, Jobs, lengthOf, outputOf, poisson, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

/**
 * Retrieval-augmented generation: a system prompt, `retrieved` different documents chosen by popularity, and a question.
 * Shuffled documents are in random order, as a ranking by relevance is for a cache; otherwise the most popular document is
 * first, so that more requests have a longer prefix in common.
 */
export const rag = generator({
  name: "rag",
  about: "a system prompt, some of many documents (Zipf) in random order, and a question",
  source: "RAGCache (arXiv 2404.12457)",
  parameters: {
    ...common,
    requestsPerS: perSecond("requests per second, a Poisson process", 3),
    systemTokens: tokens("tokens of the system prompt", 200, 0),
    documents: count("number of documents", 500, 1, 100_000),
    retrieved: count("documents in a prompt", 4, 1, 100),
    zipf: zipfExponent("documents"),
    shuffled: share("share of requests with their documents in random order; the others are sorted by popularity", 1),
    documentTokens: tokens("mean tokens of a document", 600),
    questionTokens: tokens("mean tokens of a question", 40),
    outputTokens: tokens("mean output tokens", 150),
  },
  start(values) {
    const { seed, documents, documentTokens } = values;
    const retrieved = Math.min(values.retrieved, documents);
    const random = stream(seed, 1);
    const popular = zipf(random, documents, values.zipf);
    const lengths: number[] = [];
    const tokensOf = (document: number) =>
      (lengths[document] ??= lengthOf(stream(seed, 2, document), documentTokens, documentSigma));
    const prefixes = new Prefixes(values.systemTokens, documents);
    return new Jobs(values.unitTokens, poisson(stream(seed, 3), values.requestsPerS), function* (atNs) {
      const chosen = [...distinct(popular, retrieved, documents, random)].sort((a, b) => a - b);
      if (random.unit() < values.shuffled) shuffle(chosen, random);
      let prefix = prefixes.system;
      for (const document of chosen) prefix = prefixes.after(prefix, document, tokensOf(document));
      const prompt = prefix.prompt.extend(lengthOf(random, values.questionTokens));
      const output = outputOf(random, values.outputTokens);
      yield { atNs, prompt, ...output, markedTokens: values.systemTokens, sent: { row: -1 } };
    });
  },
});

/**
 * `count` different numbers, each chosen by `popular`. Where that repeats the same few numbers (a large Zipf exponent), the
 * rest are uniform.
 */
function distinct(popular: () => number, count: number, of: number, random: Random): Set<number> {
  const chosen = new Set<number>();
  for (let tries = 0; chosen.size < count; tries++) chosen.add(tries < 20 * count ? popular() : random.below(of));
  return chosen;
}

function shuffle(items: number[], random: Random): void {
  for (let last = items.length - 1; last > 0; last--) {
    const at = random.below(last + 1);
    [items[last], items[at]] = [items[at], items[last]];
  }
}

interface Prefix {
  readonly number: number;
  readonly prompt: Prompt;
}

/** Most prefixes that are remembered; about 200 MB. */
const mostPrefixes = 2 ** 20;

/**
 * The prefixes of documents that requests have sent. There are up to documents ^ retrieved of them, so only the last
 * `mostPrefixes` that were sent are remembered: another one is new content, as if a document had been updated.
 */
class Prefixes {
  readonly system: Prefix;
  readonly #documents: number;
  #count = 0;
  /** By number of the prefix before · documents + document; the one that was sent last is last. */
  readonly #known = new Map<number, Prefix>();

  constructor(systemTokens: number, documents: number) {
    this.system = { number: this.#count++, prompt: new Prompt(undefined, systemTokens) };
    this.#documents = documents;
  }

  after(before: Prefix, document: number, tokens: number): Prefix {
    const name = before.number * this.#documents + document;
    const known = this.#known.get(name);
    if (known) this.#known.delete(name);
    else if (this.#known.size === mostPrefixes) this.#known.delete(this.#known.keys().next().value!);
    const prefix = known ?? { number: this.#count++, prompt: before.prompt.extend(tokens) };
    this.#known.set(name, prefix);
    return prefix;
  }
}
