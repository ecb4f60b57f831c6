import { audit } from "../../core/cache/audit.ts";
import type { Sequence } from "../../core/cache/request.ts";
import { Request } from "../../core/cache/request.ts";
import type { SchedulerContext } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { createCache } from "../../core/replica/compose.ts";
import { Replica } from "../../core/replica/replica.ts";
import { type BlockColumns, BlockKeys } from "../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry } from "../../policies/registry.ts";

const codes = (text: string) => [...text].map((letter) => letter.charCodeAt(0));

/** A replica whose requests run concurrently: by default all of them are in every step. A letter is a token. */
export class Overlap {
  readonly replica: Replica;
  readonly #keys: BlockKeys;
  #schedule: (context: SchedulerContext) => void = scheduleAll;
  #arrived = 0;
  #now = 0;

  constructor(index: string, rules: Partial<Record<RuleName, RuleValue>>, blockTokens = 1) {
    this.#keys = new BlockKeys({
      unitTokens: 1,
      blockTokens,
      generated: rules["cache-generated"] === "true",
      partial: rules.partial !== undefined,
    });
    const cache = createCache({
      index: indexRegistry.get(index),
      eviction: evictionRegistry.get("lru"),
      allocator: allocatorRegistry.get("block"),
      blockTokens,
      blocks: 100,
      rules,
      seed: 1,
    });
    const plan = (context: SchedulerContext) => this.#schedule(context);
    this.replica = new Replica({ cache, generation: "step", scheduler: { plan } });
  }

  arrive(prompt: string, output = "."): Sequence {
    return this.replica.submit(this.#request(prompt, output), this.#now);
  }

  #request(prompt: string, output: string): Request {
    const builder = new TraceBuilder(1);
    const keys = codes(prompt);
    const generatedKeys = codes(output);
    builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: output.length, keys, generatedKeys });
    const trace: Trace = builder.take();
    const blocks: BlockColumns = this.#keys.of(trace);
    return new Request(this.#arrived++, trace, 0, blocks);
  }

  step(schedule = scheduleAll): void {
    const { replica } = this;
    this.#schedule = schedule;
    const plan = replica.plan(++this.#now);
    audit(replica.cache, replica.running);
    replica.commit(plan, { durationNs: 1 }, this.#now);
    audit(replica.cache, replica.running);
  }

  finish(): void {
    while (!this.replica.isIdle) this.step();
  }

  /** Hit tokens that an admission of this prompt would have. */
  hits(prompt: string): number {
    return this.replica.cachedTokens(this.#request(prompt, "."));
  }
}

function scheduleAll(context: SchedulerContext): void {
  for (const running of context.running) context.schedule(running);
  while (context.firstWaiting !== undefined && context.admit(context.firstWaiting));
}
