import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";

/** Whether a running request has its prompt and writes its answer, a token a step. */
export const isDecoding = ({ generatedTokens, knownTokens, computedTokens }: SequenceView): boolean =>
  generatedTokens > 0 && computedTokens >= knownTokens - 1;

/** A token for everybody who decodes; returns whether somebody got one. */
export function decodeAll(context: SchedulerContext): boolean {
  let isAny = false;
  for (const sequence of context.running) if (isDecoding(sequence) && context.schedule(sequence)) isAny = true;
  return isAny;
}

/** Blocks that everybody's next token takes. */
export function blocksToDecode({ running, blockTokens }: SchedulerContext): number {
  let blocks = 0;
  for (const each of running) if (isDecoding(each) && each.knownTokens > each.blockCount * blockTokens) blocks++;
  return blocks;
}

/** A count of decode steps, for schedulers that remember how many there were: those done at once are counted, too. */
export class DecodeSteps {
  #count = 0;
  /** A request that is in each of the steps that may be done at once, and what it had written before them. */
  #witness: SequenceView | undefined;
  #before = 0;

  /** To be called as a plan begins. */
  catchUp(): void {
    if (this.#witness !== undefined) this.#count += this.#witness.generatedTokens - this.#before;
    this.#witness = undefined;
  }

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count++;
  }

  reset(): void {
    this.#count = 0;
  }

  /** To be called when steps like the last one may be done at once. */
  mayRepeat({ running }: SchedulerContext): void {
    this.catchUp();
    if (running.length === 0) return;
    this.#witness = running[0];
    this.#before = running[0].generatedTokens;
  }
}
