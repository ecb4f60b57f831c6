import type { Talk } from "./talk.ts";

/*
 * Naive models of the presets' caches for requests one after the other, written from the descriptions of the systems: lists,
 * strings and loops, without kvlab's code. A block is a string: its tenant and all tokens up to its end.
 */

/** The outcome of a request. */
export interface Served {
  readonly hitTokens: number;
  readonly hitBlocks: number;
  readonly refused: boolean;
}

export interface Naive {
  /** Evicted blocks. */
  evicted: number;
  serve(talk: Talk): Served;
}

export const refused: Served = { hitTokens: 0, hitBlocks: 0, refused: true };

/** By request: its text, and the end of each token in it. */
const texts = new Map<Talk, { readonly all: string; readonly ends: readonly number[] }>();

function allOf(talk: Talk) {
  let all = `${talk.space}:`;
  const ends = [all.length];
  for (const token of [...talk.prompt, ...talk.output]) ends.push((all += `${token},`).length);
  return { all, ends };
}

/** Text of the first `count` tokens of a request, output included; it is a prefix of the text of more tokens. */
function text(talk: Talk, count: number): string {
  const { all, ends } = texts.get(talk) ?? allOf(talk);
  if (!texts.has(talk)) texts.set(talk, { all, ends });
  return all.slice(0, ends[count]);
}

/** Texts of the whole blocks among the first `count` tokens. */
const blocksOf = (talk: Talk, count: number, size: number): string[] =>
  Array.from({ length: Math.floor(count / size) }, (_, i) => text(talk, (i + 1) * size));

/** Tokens whose KV is computed when the request finishes: all but the last output token. */
export const knownOf = ({ prompt, output }: Talk): number => prompt.length + output.length - 1;

/** An unreferenced block. */
interface Idle {
  /** Undefined: it is free. `lost`: a newer block with the same content is matched instead. */
  text: string | undefined;
  readonly born: number;
}

const lost = "lost";

/**
 * vLLM (1.7), vLLM v0 (1.6) and nano-vllm (1.12): unreferenced blocks are in a queue, those of a request from its end to its
 * beginning, and are evicted from its head.
 *
 *   vllm         free blocks are allocated first; content may be cached twice, and the first block is matched
 *   vllm@0.19    as vllm, but free blocks are in the same queue
 *   vllm-v0      a cached block is used also past a hole; of two with the same content one is kept. A prompt's last block is
 *                used, but is no hit (Corrections 11)
 *   vllm-v0@0.8  as vllm-v0, but of a prompt that is cached to its end all tokens except the last are hits
 *   nano-vllm    free blocks are in the same queue; of two with the same content the newer one is matched
 */
type QueueKind = "vllm" | "vllm@0.19" | "vllm-v0" | "vllm-v0@0.8" | "nano-vllm";

export class NaiveQueue implements Naive {
  evicted = 0;
  readonly #size: number;
  readonly #kind: QueueKind;
  readonly #isSingle: boolean;
  readonly #isV0: boolean;
  #free: number;
  #queue: Idle[] = [];
  #born = 0;

  constructor(kind: QueueKind, size: number, blocks: number) {
    this.#kind = kind;
    this.#isSingle = kind === "nano-vllm" || kind === "vllm@0.19";
    this.#isV0 = kind === "vllm-v0" || kind === "vllm-v0@0.8";
    this.#size = size;
    this.#free = this.#isSingle ? 0 : blocks;
    if (this.#isSingle) this.#queue = Array.from({ length: blocks }, () => ({ text: undefined, born: 0 }));
  }

  serve(talk: Talk): Served {
    const size = this.#size;
    const length = talk.prompt.length;
    const there = blocksOf(talk, length, size).map((block) => this.#find(block));
    const most = this.#kind === "vllm-v0@0.8" ? there.length : Math.floor((length - 1) / size);
    let hits = 0;
    while (hits < most && there[hits] !== undefined) hits++;
    const used = there.map((block, i) => (i < hits || this.#isV0 ? block : undefined));
    const usedCount = used.filter((block) => block !== undefined).length;
    const needed = Math.ceil(length / size) - usedCount;
    if (needed > this.#free + this.#queue.length - usedCount) return refused;
    this.#queue = this.#queue.filter((block) => !used.includes(block));
    this.#allocate(needed);
    const more = Math.ceil(knownOf(talk) / size) - Math.ceil(length / size);
    const fits = more <= this.#free + this.#queue.length;
    if (fits) this.#allocate(more);
    this.#letGo(talk, fits ? knownOf(talk) : length, used);
    return { hitTokens: Math.min(hits * size, length - 1), hitBlocks: hits, refused: false };
  }

  #find(block: string): Idle | undefined {
    const same = this.#queue.filter((one) => one.text === block);
    return same.sort((a, b) => a.born - b.born)[0];
  }

  #allocate(count: number): void {
    for (; count > 0; count--) {
      if (this.#free > 0) this.#free--;
      else if (this.#queue.shift()!.text !== undefined) this.evicted++;
    }
  }

  #letGo(talk: Talk, known: number, used: readonly (Idle | undefined)[]): void {
    const whole = blocksOf(talk, known, this.#size).map((block, i): Idle => {
      const same = this.#find(block);
      if (used[i] === undefined && same !== undefined) {
        if (this.#kind === "nano-vllm") same.text = lost;
        if (this.#isV0) {
          this.#free++;
          this.#queue = this.#queue.filter((one) => one !== same);
          return same;
        }
      }
      return used[i] ?? { text: block, born: ++this.#born };
    });
    if (known % this.#size > 0) {
      if (this.#isSingle) this.#queue.push({ text: undefined, born: 0 });
      else this.#free++;
    }
    this.#queue.push(...whole.reverse());
  }
}

interface Node {
  readonly text: string;
  /** The text of the block before it. */
  readonly above: string;
  readonly born: number;
  last: number;
}

/**
 * LMDeploy (1.2), TurboMind (1.3), TensorRT-LLM (1.11) and the prefix trie (1.5): content is stored once, and only blocks
 * that no block extends are evicted, the least recently used first.
 *
 *   lmdeploy     whole blocks that end before the end of the prompt
 *   turbomind    and a copy of the beginning of a block that would end before the end of the prompt
 *   trt-llm      and the beginning of any block, which is reused in place if no block extends it, but never the last token; the
 *                incomplete last block is stored, too
 *   prefix-trie  whole blocks of the marked prefix and nothing else; FIFO
 */
export class NaiveTrie implements Naive {
  evicted = 0;
  readonly #size: number;
  readonly #kind: "lmdeploy" | "turbomind" | "trt-llm" | "prefix-trie";
  #free: number;
  #stored: Node[] = [];
  #now = 0;

  constructor(kind: "lmdeploy" | "turbomind" | "trt-llm" | "prefix-trie", size: number, blocks: number) {
    this.#kind = kind;
    this.#size = size;
    this.#free = blocks;
  }

  serve(talk: Talk): Served {
    const size = this.#size;
    const length = talk.prompt.length;
    const marked = this.#kind === "prefix-trie";
    this.#now++;
    const most = marked ? Math.floor(talk.marked / size) : Math.floor((length - 1) / size);
    const prompt = blocksOf(talk, length, size);
    let hits = 0;
    while (hits < most && this.#find(prompt[hits]) !== undefined) hits++;
    const part = this.#part(talk, hits);
    const stolen = part.block !== undefined && this.#kind === "trt-llm" && this.#isLeaf(part.block) ? 1 : 0;
    const needed = Math.ceil(length / size) - hits - stolen;
    if (needed > this.#free + this.#stored.length - hits - stolen) return refused;
    if (stolen > 0) this.#stored = this.#stored.filter((node) => node !== part.block);
    const matched = prompt.slice(0, hits);
    this.#allocate(needed, matched);
    const more = marked ? 0 : Math.ceil(knownOf(talk) / size) - Math.ceil(length / size);
    const fits = !marked && more <= this.#free + this.#stored.length - hits;
    if (fits) this.#allocate(more, matched);
    this.#store(talk, fits ? knownOf(talk) : length, hits, fits);
    return { hitTokens: hits * size + part.tokens, hitBlocks: hits, refused: false };
  }

  #find = (block: string): Node | undefined => this.#stored.find((node) => node.text === block);
  #isLeaf = (node: Node): boolean => !this.#stored.some(({ above }) => above === node.text);

  /** The block after the hits with the longest common beginning with the prompt; the newest of equals. */
  #part(talk: Talk, hits: number): { block?: Node; tokens: number } {
    const size = this.#size;
    const length = talk.prompt.length;
    const begin = hits * size;
    if (this.#kind === "lmdeploy" || this.#kind === "prefix-trie") return { tokens: 0 };
    if (this.#kind === "turbomind" && begin + size >= length) return { tokens: 0 };
    const most = Math.min(size, length - 1 - begin);
    const above = text(talk, begin);
    let found: { block?: Node; tokens: number } = { tokens: 0 };
    for (const block of this.#stored.toReversed()) {
      if (block.above !== above) continue;
      let tokens = 0;
      while (tokens < most && block.text.startsWith(text(talk, begin + tokens + 1))) tokens++;
      // A completely matching block, of which the rule allows a part, precedes one that matches partially.
      const isWhole = block.text === text(talk, begin + size);
      if (tokens > found.tokens || (isWhole && tokens === found.tokens && tokens > 0)) found = { block, tokens };
    }
    return found;
  }

  #allocate(count: number, matched: readonly string[]): void {
    for (; count > 0; count--) {
      if (this.#free > 0) {
        this.#free--;
        continue;
      }
      const age = (node: Node) => (this.#kind === "prefix-trie" ? node.born : node.last);
      const leaves = this.#stored.filter((node) => !matched.includes(node.text) && this.#isLeaf(node));
      const [victim] = leaves.sort((a, b) => age(a) - age(b));
      this.#stored = this.#stored.filter((node) => node !== victim);
      this.evicted++;
    }
  }

  /** Without blocks for the output, only whole blocks are published: the last one is not complete. */
  #store(talk: Talk, known: number, hits: number, fits: boolean): void {
    const size = this.#size;
    const marked = this.#kind === "prefix-trie";
    const ends = blocksOf(talk, marked ? talk.marked : known, size).map((_, i) => (i + 1) * size);
    if (this.#kind === "trt-llm" && fits && known % size > 0) ends.push(known);
    let stored = 0;
    for (const [i, end] of ends.entries()) {
      const node = this.#find(text(talk, end));
      if (node !== undefined) {
        node.last = this.#now;
        continue;
      }
      const above = text(talk, i * size);
      this.#stored.push({ text: text(talk, end), above, born: this.#now, last: this.#now });
      stored++;
    }
    this.#free += Math.ceil(known / size) - hits - stored;
  }
}

/**
 * roseinfer (1.4): whole prompts, LRU. The prefix pool (1.5): marked prefixes, in whole blocks, FIFO. An entry matches an equal
 * prompt or prefix only.
 */
export class NaivePrefixes implements Naive {
  evicted = 0;
  readonly #size: number;
  readonly #marked: boolean;
  #free: number;
  /** Entries, the next victim first. */
  #entries: { readonly text: string; readonly blocks: number }[] = [];

  constructor(kind: "roseinfer" | "prefix-pool", size: number, blocks: number) {
    this.#marked = kind === "prefix-pool";
    this.#size = size;
    this.#free = blocks;
  }

  serve(talk: Talk): Served {
    const { length } = talk.prompt;
    const size = this.#size;
    const blocks = this.#marked ? Math.floor(talk.marked / size) : Math.ceil(length / size);
    const tokens = this.#marked ? blocks * size : length;
    const own = text(talk, tokens);
    const found = blocks === 0 ? undefined : this.#entries.find((entry) => entry.text === own);
    const needed = Math.ceil(length / size) - (found ? blocks : 0);
    const idle = this.#entries.reduce((sum, entry) => sum + entry.blocks, 0) - (found ? blocks : 0);
    if (needed > this.#free + idle) return refused;
    while (needed > this.#free) {
      const victim = this.#entries.find((entry) => entry !== found)!;
      this.#entries = this.#entries.filter((entry) => entry !== victim);
      this.#free += victim.blocks;
      this.evicted += victim.blocks;
    }
    if (found !== undefined) {
      // A used entry is evicted later, except in a pool.
      if (!this.#marked) this.#entries = [...this.#entries.filter((entry) => entry !== found), found];
      return { hitTokens: tokens, hitBlocks: blocks, refused: false };
    }
    if (blocks > 0) {
      this.#entries.push({ text: own, blocks });
      this.#free -= blocks;
    }
    return { hitTokens: 0, hitBlocks: 0, refused: false };
  }
}

/** TGI without prefix caching (1.9): it allocates slots for the longest output, and has no hits. */
export class NaiveNothing implements Naive {
  evicted = 0;
  readonly #most: number;

  constructor(size: number, blocks: number) {
    this.#most = size * blocks;
  }

  serve({ prompt, maxOutputTokens }: Talk): Served {
    return { hitTokens: 0, hitBlocks: 0, refused: prompt.length + maxOutputTokens - 1 > this.#most };
  }
}
