import type { RequestView, SequenceView } from "../plugins/index.ts";
import { type BlockColumns, knownTokens, noTail } from "../trace/content.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { BlockTable, hole } from "./block-table.ts";

/** Number of blocks for this many tokens; integer arithmetic is faster than rounding up a quotient. */
export function blocksOf(tokens: number, blockTokens: number): number {
  return ((tokens + blockTokens - 1) / blockTokens) | 0;
}

/** One row of a trace. */
export class Request implements RequestView {
  id = 0;
  row = 0;
  keyStart = 0;
  promptBlocks = 0;
  inputTokens = 0;
  /** Blocks of the prompt, a partial last one included. */
  inputBlocks = 0;
  /** Blocks with a content id: those of the prompt and, with `cache-generated`, of the output. */
  knownBlocks = 0;
  readonly trace: Trace;
  readonly blocks: BlockColumns;
  readonly keys: Uint32Array;

  /** `id` counts over the run, `row` in this trace or batch. */
  constructor(id: number, trace: Trace, row: number, blocks: BlockColumns) {
    this.trace = trace;
    this.blocks = blocks;
    this.keys = blocks.keys;
    this.reset(id, row);
  }

  /** Reuses the object for another request of its trace: for clock-free replays. */
  reset(id: number, row: number): this {
    const { start, promptBlocks } = this.blocks;
    this.id = id;
    this.row = row;
    this.keyStart = start[row] | 0;
    this.promptBlocks = promptBlocks[row];
    this.knownBlocks = (start[row + 1] | 0) - this.keyStart;
    this.inputTokens = this.trace.inputTokens[row] | 0;
    this.inputBlocks = blocksOf(this.inputTokens, this.blocks.blockTokens);
    return this;
  }

  /** End of the last known block: the end of the prompt or, with `cache-generated`, of the output. */
  get lastTokens(): number {
    const { blockTokens } = this.blocks;
    return Math.min(this.knownBlocks * blockTokens, knownTokens(this.trace, this.row, this.blocks.generated ?? false));
  }

  /** Known blocks without an incomplete last one, whose content is known only when the request has finished. */
  get wholeBlocks(): number {
    const { knownBlocks, promptBlocks, blocks } = this;
    const hasTail = blocks.storedTails === true && knownBlocks > promptBlocks;
    return hasTail && this.lastTokens < knownBlocks * blocks.blockTokens ? knownBlocks - 1 : knownBlocks;
  }

  /** Content id of block i of the prompt or of the tokens after its last whole block; `noTail` if there is none. */
  keyAt(i: number): number {
    if (i < this.promptBlocks) return this.keys[this.keyStart + i];
    return i === this.promptBlocks ? (this.blocks.tails?.[this.row] ?? noTail) : noTail;
  }
  /** Place of the prompt's partial last block, if it has a content id; −1 if there is none. */
  get partialAt(): number {
    return this.promptBlocks * this.blocks.blockTokens > this.inputTokens ? this.promptBlocks - 1 : -1;
  }
  get arrivalNs(): Nanos {
    return this.trace.arrivalNs[this.row];
  }
  /** Not part of RequestView: policies may not read it. */
  get outputTokens(): number {
    return this.trace.outputTokens[this.row];
  }
  get maxOutputTokens(): number {
    return this.trace.maxOutputTokens[this.row];
  }
  get namespace(): number {
    return this.trace.optional.namespace?.[this.row] ?? 0;
  }
  get session(): number {
    return this.trace.optional.session?.[this.row] ?? 0;
  }
  get category(): number {
    return this.trace.optional.category?.[this.row] ?? 0;
  }
  get priority(): number {
    return this.trace.optional.priority?.[this.row] ?? 0;
  }
  get retentionNs(): Nanos {
    return this.trace.optional.retentionNs?.[this.row] ?? 0;
  }
  // Not part of RequestView: the client states them when the request has ended.
  /** Number of the tool that its session calls then; 0 = none. */
  get tool(): number {
    return this.trace.optional.tool?.[this.row] ?? 0;
  }
  get nextUseNs(): Nanos {
    return this.trace.optional.nextUseNs?.[this.row] ?? 0;
  }
  get nextUseSteps(): number {
    return this.trace.optional.nextUseSteps?.[this.row] ?? 0;
  }
  get keepNs(): Nanos {
    return this.trace.optional.keepNs?.[this.row] ?? 0;
  }
  /** A value of `SessionEnd`. */
  get sessionEnd(): number {
    return this.trace.optional.sessionEnd?.[this.row] ?? 0;
  }
  get markedTokens(): number {
    return this.trace.optional.markedTokens?.[this.row] ?? 0;
  }
}

/** Above the length of any prompt, and a small integer. */
const unlimitedHits = 2 ** 29;

/** A request inside a replica: its block table and its progress. */
export class Sequence implements SequenceView {
  request: Request;
  readonly blocks = new BlockTable();
  /** Most hit blocks; 0 for requests that return logprobs of the prompt, which must be computed. */
  maxHitBlocks = unlimitedHits;
  cachedTokens = 0;
  computedTokens = 0;
  generatedTokens = 0;
  preemptions = 0;
  /** Number of its last admission: the order of running sequences. */
  admission = 0;
  /** Tokens whose KV is in host memory, while the sequence waits. */
  swappedTokens = 0;
  /** Tokens that are swapped in before the step that is being planned. */
  restoredTokens = 0;
  /** Tokens whose KV is on its prefill replica, while the request waits on its decode replica. */
  remoteTokens = 0;
  /** Whether it is in the step that is being planned or under way. */
  inStep = false;
  /** Tokens that this step computes; 0 if the logits are stored. */
  stepTokens = 0;
  /** Draft tokens that this step verifies. */
  draftTokens = 0;
  /** Whether its lookup has been counted. */
  counted = false;
  next: Sequence | undefined = undefined;
  previous: Sequence | undefined = undefined;

  constructor(request: Request) {
    this.request = request;
  }

  /** The physical blocks; the first `blockCount` elements are valid. */
  get table(): Int32Array {
    return this.blocks.blocks;
  }
  get blockCount(): number {
    return this.blocks.count;
  }
  get cachedBlocks(): number {
    return this.blocks.cached;
  }

  /** Reuses the object for another request; the block table keeps its capacity. */
  reset(request: Request): void {
    this.request = request;
    this.blocks.clear();
    this.maxHitBlocks = unlimitedHits;
    this.cachedTokens = this.computedTokens = this.generatedTokens = this.preemptions = this.stepTokens = 0;
    this.swappedTokens = this.restoredTokens = this.remoteTokens = this.draftTokens = 0;
    this.inStep = false;
    this.counted = false;
  }

  get knownTokens(): number {
    return this.request.inputTokens + this.generatedTokens;
  }

  /** Blocks whose content is computed; output tokens may still be added to a partial last block of the prompt. */
  get computedBlocks(): number {
    const { inputTokens, promptBlocks, blocks } = this.request;
    const full = Math.floor(this.computedTokens / blocks.blockTokens);
    const prompt = this.computedTokens >= inputTokens ? promptBlocks : 0;
    const { cached, copiedAt } = this.blocks;
    const computed = Math.max(cached, full, prompt);
    return copiedAt === hole ? computed : Math.min(computed, copiedAt);
  }

  /** Blocks of the first `tokens` tokens. */
  blocksUpTo(tokens: number): number {
    const { request } = this;
    return tokens === request.inputTokens ? request.inputBlocks : blocksOf(tokens, request.blocks.blockTokens);
  }
}

/** A FIFO queue of sequences; removal from any place is O(1). */
export class SequenceQueue {
  first: Sequence | undefined;
  #last: Sequence | undefined;
  count = 0;
  /** Number of changes. */
  version = 0;
  /** Known tokens of all sequences in the queue, which do not change while they wait. */
  tokens = 0;

  /** Whether the sequence, which is in no other queue, is in this one. */
  has(sequence: Sequence): boolean {
    return this.first === sequence || sequence.previous !== undefined;
  }

  /** The sequence of a request by its id; undefined if it is not in the queue. */
  find(id: number): Sequence | undefined {
    let sequence = this.first;
    while (sequence !== undefined && sequence.request.id !== id) sequence = sequence.next;
    return sequence;
  }

  append(sequence: Sequence): void {
    sequence.previous = this.#last;
    sequence.next = undefined;
    if (this.#last) this.#last.next = sequence;
    else this.first = sequence;
    this.#last = sequence;
    this.#counted(sequence, 1);
  }

  prepend(sequence: Sequence): void {
    sequence.previous = undefined;
    sequence.next = this.first;
    if (this.first) this.first.previous = sequence;
    else this.#last = sequence;
    this.first = sequence;
    this.#counted(sequence, 1);
  }

  remove(sequence: Sequence): void {
    const { previous, next } = sequence;
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    sequence.previous = sequence.next = undefined;
    this.#counted(sequence, -1);
  }

  #counted({ knownTokens }: Sequence, by: 1 | -1): void {
    this.count += by;
    this.version++;
    this.tokens += by * knownTokens;
  }
}
