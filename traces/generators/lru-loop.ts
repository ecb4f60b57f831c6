import { common, count, generator, perSecond } from "./generator.ts";
import { Jobs, poisson, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

/**
 * The worst case of LRU: prompts of the same length in a loop that is one prompt larger than the cache. Whenever a prompt
 * returns, its blocks were used longest ago and LRU has just evicted them, so that LRU and FIFO have no hits, while a policy
 * that keeps the first prompts hits nearly all of them.
 */
export const lruLoop = generator({
  name: "lru-loop",
  about: "the worst case of LRU: a loop of prompts that is one prompt larger than the cache",
  source: "Sleator and Tarjan, Amortized efficiency of list update and paging rules (CACM 28.2, 1985)",
  parameters: {
    ...common,
    cacheBlocks: count("size of the cache in blocks of unit-tokens", 1000, 1, 10_000_000),
    promptBlocks: count("blocks of a prompt; at most those of the cache", 1, 1, 100_000),
    requestsPerS: perSecond("requests per second, a Poisson process", 10),
  },
  start(values) {
    const { unitTokens, cacheBlocks } = values;
    const promptBlocks = Math.min(values.promptBlocks, cacheBlocks);
    const length = Math.ceil(cacheBlocks / promptBlocks) + 1;
    const prompts: Prompt[] = [];
    return new Jobs(unitTokens, poisson(stream(values.seed, 1), values.requestsPerS), function* (atNs, number) {
      const prompt = (prompts[number % length] ??= new Prompt(undefined, promptBlocks * unitTokens));
      yield { atNs, prompt, outputTokens: 1, maxOutputTokens: 1, sent: { row: -1 } };
    });
  },
});
