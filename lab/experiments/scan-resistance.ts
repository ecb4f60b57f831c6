import { grouped } from "../../core/counted.ts";
import type { Experiment, Row } from "./experiment.ts";
import { type Prompt, traceOf } from "./requests.ts";
import type { ExperimentRunner } from "./runner.ts";

const chunkTokens = 256;
const hotPrompts = 4;
const rounds = 3;
const coldPrompts = 24;
/** 0.09375 GiB in chunks of 256 tokens of DeepSeek-V2-Lite: 27 layers of 576 numbers of 2 bytes per token. */
const chunks = Math.floor((0.09375 * 2 ** 30) / (chunkTokens * 27 * 576 * 2));
const hotTokens = hotPrompts * chunkTokens;

/** The hot prompts several times, the cold prompts once, and the hot prompts once more. */
function requests(): Prompt[] {
  const request = (id: number): Prompt => ({ prefix: { id, tokens: chunkTokens }, ownTokens: 0, outputTokens: 1 });
  const hot = Array.from({ length: hotPrompts }, (_, id) => request(id));
  const cold = Array.from({ length: coldPrompts }, (_, i) => request(hotPrompts + i));
  return [...Array.from({ length: rounds }, () => hot).flat(), ...cold, ...hot];
}

const policies = [
  "lru",
  "fifo",
  "arc",
  "2q",
  "lirs",
  "s3-fifo",
  "clock",
  "sieve",
  "slru",
  "lfu",
  "tinylfu",
  "w-tinylfu",
];

export const scanResistance: Experiment = {
  name: "scan-resistance",
  about: "a hot set of 1,024 tokens, a cold scan of more than the cache, and the hot set again",
  source: "LMCache's pull request 4994 (September 2026)",
  async run(runner: ExperimentRunner) {
    const trace = traceOf(requests());
    const hits = new Map<string, number>();
    for (const eviction of policies) {
      const { requests } = await runner.replay(trace, { eviction, blocks: chunks, blockTokens: chunkTokens });
      const last = requests.hitTokens.subarray(-hotPrompts);
      hits.set(
        eviction,
        last.reduce((sum, tokens) => sum + tokens, 0),
      );
    }
    const rows = policies.map(
      (eviction): Row => ({
        configuration: eviction,
        ...(eviction === "arc" && { published: { hitTokens: hotTokens } }),
        simulated: { hitTokens: hits.get(eviction)! },
      }),
    );
    const evicting = policies.filter((eviction) => hits.get(eviction) === 0);
    const keeping = policies.filter((eviction) => hits.get(eviction) === hotTokens);
    return {
      workload:
        `${hotPrompts} prompts of ${chunkTokens} tokens, ${rounds} times; then ${coldPrompts} others once; then the first ${hotPrompts} again, whose hit tokens are counted. ` +
        `The cache has ${chunks} chunks of ${chunkTokens} tokens: 0.09375 GiB of DeepSeek-V2-Lite. The numbers of prompts and rounds are assumed.`,
      rows,
      headlines: [
        {
          ratio: "lru: tokens of the hot set that miss",
          published: hotTokens,
          simulated: hotTokens - hits.get("lru")!,
        },
        { ratio: "arc: tokens of the hot set that hit", published: hotTokens, simulated: hits.get("arc")! },
      ],
      explanations: [
        `The scan is longer than the cache, so ${evicting.join(", ")} evict the hot set, which was used before it: 0 tokens hit, as published for LRU.`,
        `${keeping.join(", ")} prefer blocks that were used more than once, and all ${grouped(hotTokens)} tokens hit, as published for ARC.`,
        "The first eviction of lirs and tinylfu is that of LRU and costs one of the prompts.",
        "LMCache evicts a quarter of its chunks when 80 % are used; here an eviction makes room for one request. The number of hits is the same.",
      ],
    };
  },
};
