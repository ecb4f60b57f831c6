import { blocksOf, type Sequence } from "../../core/cache/request.ts";
import { type Random, seededRandom } from "../../core/random.ts";
import type { StepItem, StepPlan } from "../../core/replica/step.ts";
import type { ObservedReplica, StepObserver } from "../../core/serving/observers.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { promptTokens } from "../content-tokens.ts";
import type { Executor } from "../executor.ts";
import type { ModelStepsOptions } from "../model-steps.ts";
import { blockDifference, type ContentsTolerance, type RowDifference, rowDifference } from "./difference.ts";
import { Recomputation } from "./recomputation.ts";

export interface ContentsCheckOptions {
  readonly trace: Trace;
  /** The pool of the engine's cache. */
  readonly pool: Executor;
  /** Blocks for one sequence at a time: another part of the same executor's pool. */
  readonly scratch: Executor;
  readonly layers: number;
  readonly vocabulary: number;
  /** As in `TokenChoice`. */
  readonly fold?: boolean;
  /** Absent: contents must be bit-identical. */
  readonly tolerance?: ContentsTolerance | undefined;
  /**
   * Share of the candidates that are recomputed, 0 to 1. Absent: as many as have, at `fixedCost`, `defaultCost` recomputed
   * tokens per token that the engine computes.
   */
  readonly share?: number | undefined;
  readonly seed: number;
}

/** Numbers of recomputed contents. */
export interface CheckedContents {
  /** Recomputations of a sequence, with the tokens of all of them. */
  sequences: number;
  tokens: number;
  /** Blocks of these sequences. */
  blocks: number;
  /** Rows of logits that were compared, and those of them that end a prefill after a cached prefix. */
  logits: number;
  hits: number;
}

/** The first difference between the engine's contents and the recomputed ones. */
export interface ContentsDifference extends RowDifference {
  readonly what: "keys" | "values" | "logits";
  readonly request: number;
  /** Physical block, its index in the block table of the request, and the layer; absent for logits. */
  readonly at?: { readonly block: number; readonly place: number; readonly layer: number };
  /** Position of the token in the sequence. */
  readonly token: number;
  /** Number of the step after which the contents were read, and the length of the event log when it was planned. */
  readonly step: number;
  readonly events: number;
}

/** A sequence after a step, to be recomputed. */
interface Sample {
  readonly request: number;
  /** The tokens whose keys and values the pool contains. */
  readonly tokens: Int32Array;
  readonly table: number[];
  readonly endsHit: boolean;
  logits?: Float32Array | undefined;
}

/** Recomputed tokens per token that the engine computes. */
const defaultCost = 0.5;

/** The time of a recomputation that does not depend on its length, in tokens: the calls of the executor, and reading the weights. */
const fixedCost = 32;

/** Blocks of about this many tokens are read at once. */
const readTokens = 256;

/**
 * Recomputes sampled sequences of an engine run without the cache, and compares their keys, values and logits with those of the
 * engine. An observer of the run: `planned` and `onToken` copy block tables, tokens and logits of a step, and `afterStep` compares
 * them before the next step changes the pool. Its time is not the engine's.
 *
 * A sequence is a candidate in each step in which its prefill ends, it is swapped in, one of its blocks is copied, or it finishes.
 * Idle blocks are compared when a request hits them.
 */
export class ContentsCheck implements StepObserver {
  readonly counts: CheckedContents = { sequences: 0, tokens: 0, blocks: 0, logits: 0, hits: 0 };
  /** The largest relative errors so far. */
  readonly largestErrors = { keysAndValues: 0, logits: 0 };
  readonly #options: ContentsCheckOptions;
  readonly #random: Random;
  readonly #recomputation: Recomputation;
  /** Output tokens of running requests. */
  readonly #outputs = new Map<number, number[]>();
  readonly #swappedIn = new Set<Sequence>();
  /** By request: the sequences of the step under way that are candidates if they finish with it. */
  readonly #decodes = new Map<number, { readonly sequence: Sequence; readonly end: number }>();
  readonly #samples = new Map<number, Sample>();
  /** Tokens that may be recomputed, unless there is a share. */
  #credit = 0;
  #step = -1;
  #events = 0;
  #difference: ContentsDifference | undefined;

  constructor(options: ContentsCheckOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#recomputation = new Recomputation(options.scratch, this.#random);
  }

  /** After a difference no further sequence is recomputed, because its blocks may contain the same fault. */
  get difference(): ContentsDifference | undefined {
    return this.#difference;
  }

  planned({ log }: ObservedReplica, plan: StepPlan): void {
    this.#step++;
    this.#events = log?.count ?? 0;
    this.#credit += (plan.prefillTokens + plan.decodeTokens) * defaultCost;
    this.#decodes.clear();
    const copied = new Set(plan.copies.map(({ target }) => target));
    for (let i = 0; i < plan.count && !this.#difference; i++) this.#planItem(plan.items[i], copied);
    this.#swappedIn.clear();
  }

  swappedIn(sequence: Sequence): void {
    this.#swappedIn.add(sequence);
  }

  ended({ request }: Sequence): void {
    this.#outputs.delete(request.id);
  }

  /** Whether the logits of the step under way are compared. */
  readonly needsLogits = (): boolean => this.#samples.size > 0;

  readonly onToken: NonNullable<ModelStepsOptions["onToken"]> = ({ id }, token, isLast, logits) => {
    const sample = this.#samples.get(id);
    if (sample) sample.logits = logits?.slice();
    const decode = isLast ? this.#decodes.get(id) : undefined;
    if (decode) this.#draw(decode.sequence, decode.end, false);
    const output = this.#outputs.get(id);
    if (output) output.push(token);
    else this.#outputs.set(id, [token]);
  };

  /** Compares the sampled sequences of the step that has ended. */
  async afterStep(): Promise<void> {
    for (const sample of this.#samples.values()) {
      this.#difference = await this.#differenceOf(sample);
      if (this.#difference) break;
    }
    this.#samples.clear();
  }

  #planItem({ sequence, from, tokens, prefill, generate }: StepItem, copied: ReadonlySet<number>): void {
    const writtenBlock = sequence.table[Math.floor(from / this.#options.pool.blockTokens)];
    // Without tokens to compute, the logits are those stored with the prompt.
    const endsPrefill = generate > 0 && (prefill || tokens === 0);
    if (endsPrefill || this.#swappedIn.has(sequence) || copied.has(writtenBlock))
      this.#draw(sequence, from + tokens, endsPrefill && sequence.cachedTokens > 0);
    else if (generate > 0) this.#decodes.set(sequence.request.id, { sequence, end: from + tokens });
  }

  /** Decides whether the sequence is recomputed: its tokens before `end`. */
  #draw(sequence: Sequence, end: number, endsHit: boolean): void {
    const { share, pool } = this.#options;
    const cost = end + fixedCost;
    if (this.#random.unit() >= (share ?? this.#credit / cost)) return;
    this.#credit -= cost;
    const request = sequence.request.id;
    const table = [...sequence.table.subarray(0, blocksOf(end, pool.blockTokens))];
    this.#samples.set(request, { request, tokens: this.#tokensOf(sequence, end), table, endsHit });
  }

  #tokensOf({ request }: Sequence, end: number): Int32Array {
    const { trace, vocabulary, fold = false } = this.#options;
    const prompt = promptTokens(trace, request.row, vocabulary, { fold });
    const tokens = new Int32Array(end);
    tokens.set(prompt.subarray(0, end));
    if (end > prompt.length) tokens.set(this.#outputs.get(request.id)!.slice(0, end - prompt.length), prompt.length);
    return tokens;
  }

  async #differenceOf(sample: Sample): Promise<ContentsDifference | undefined> {
    const { tokens, logits, endsHit } = sample;
    const { counts } = this;
    const { table, logits: recomputed } = await this.#recomputation.prefill(tokens);
    counts.sequences++;
    counts.tokens += tokens.length;
    // Blocks are compared first, because a wrong block also changes the logits.
    const ofLogits = logits && rowDifference(logits, recomputed);
    const ofBlocks = await this.#blockDifference(sample, table);
    if (logits) counts.logits++;
    if (logits && endsHit) counts.hits++;
    if (ofBlocks) return ofBlocks;
    if (!ofLogits || this.#isAccepted("logits", ofLogits)) return undefined;
    return { what: "logits", token: tokens.length - 1, ...this.#where(sample), ...ofLogits };
  }

  async #blockDifference(sample: Sample, recomputedTable: readonly number[]): Promise<ContentsDifference | undefined> {
    const { pool, scratch, layers } = this.#options;
    const { table, tokens } = sample;
    const { blockTokens } = pool;
    const count = Math.ceil(readTokens / blockTokens);
    for (let first = 0; first < table.length; first += count) {
      const engine = await pool.readBlocks(table.slice(first, first + count));
      const recomputed = await scratch.readBlocks(recomputedTable.slice(first, first + count));
      for (let i = 0; i < engine.length; i++) {
        const place = first + i;
        const from = place * blockTokens;
        const filled = Math.min(blockTokens, tokens.length - from);
        this.counts.blocks++;
        const shape = { layers, blockTokens };
        const found = blockDifference(engine[i], recomputed[i], shape, filled, (difference) =>
          this.#isAccepted("keysAndValues", difference),
        );
        if (!found) continue;
        const { layer, token, ...difference } = found;
        const at = { block: table[place], place, layer };
        return { ...difference, ...this.#where(sample), at, token: from + token };
      }
    }
    return undefined;
  }

  /** Whether the difference is within the tolerance; a NaN never is. */
  #isAccepted(kind: keyof ContentsTolerance, { relativeError }: RowDifference): boolean {
    const { tolerance } = this.#options;
    this.largestErrors[kind] = Math.max(this.largestErrors[kind], relativeError);
    return tolerance !== undefined && relativeError <= tolerance[kind];
  }

  #where({ request }: Sample) {
    return { request, step: this.#step, events: this.#events };
  }
}
