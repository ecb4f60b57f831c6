import { blocksOf } from "../../core/cache/request.ts";
import type {
  PlanValidity,
  RequestView,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { decodeAll } from "./decode-steps.ts";
import { refuseOutOfBlocks, refuseTooLong } from "./out-of-blocks.ts";

/** Requests that have marked the same prefix; a request without one is a group by itself. */
interface Group {
  /** Blocks of the prefix; 0 = none. */
  readonly prefixBlocks: number;
  /** Its members in this batch. */
  readonly members: SequenceView[];
  /** Blocks of the prefix, and for each member those of the rest of its prompt and of `maxOutputTokens`. */
  neededBlocks: number;
  /** Members that have not finished. */
  unfinished: number;
  /** Members need not wait until one of them has computed the prefix. */
  isWarm: boolean;
}

/**
 * Batches of whole groups. A batch is filled with groups of waiting requests, those that need the most blocks first, as far
 * as they fit. The first member of a group computes the prefix, the others are admitted in the next step, and the prefix is
 * deleted when the last of them has finished. Then the next batch is chosen from the waiting requests. A group that does not
 * fit even by itself is served last, request by request.
 *
 * Source: vLLM PrefixGroup (added to PR 1669), where all requests are known from the beginning. Here a large group can wait
 * for as long as smaller ones arrive.
 */
class PrefixGroups implements Scheduler {
  readonly #rules: Rules;
  /** Groups of the batch, by request. */
  readonly #groupOf = new Map<number, Group>();
  /** Requests of the batch that wait. */
  readonly #waiting = new Set<number>();
  /** The replica, for deleting prefixes in `finished`. */
  #context: SchedulerContext | undefined;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  plan(context: SchedulerContext): PlanValidity {
    const { running } = context;
    this.#context = context;
    for (;;) {
      if (running.length === 0 && this.#waiting.size === 0 && !this.#chooseBatch(context)) break;
      if (this.#waiting.size > 0 && this.#prefill(context)) break;
      if (running.length > 0 && this.#decode(context)) break;
    }
    return this.#waiting.size === 0 ? "until-change" : undefined;
  }

  finished({ request }: SequenceView): void {
    // A cancelled request may still wait.
    this.#waiting.delete(request.id);
    this.#leaveGroup(request);
  }

  /** Chooses the next batch; false if no request waits. */
  #chooseBatch(context: SchedulerContext): boolean {
    this.#groupOf.clear();
    const groups = this.#groups(context);
    if (groups.length === 0) return false;
    let availableBlocks = context.totalBlocks ?? Number.POSITIVE_INFINITY;
    for (const group of groups.toSorted((a, b) => b.neededBlocks - a.neededBlocks)) {
      if (group.neededBlocks > availableBlocks) continue;
      availableBlocks -= group.neededBlocks;
      this.#addToBatch(group);
    }
    // No group fits as a whole.
    if (this.#waiting.size === 0) {
      const [{ prefixBlocks, members, neededBlocks }] = groups;
      this.#addToBatch({ prefixBlocks, members: [members[0]], neededBlocks, unfinished: 1, isWarm: true });
    }
    return true;
  }

  #addToBatch(group: Group): void {
    for (const { request } of group.members) {
      this.#groupOf.set(request.id, group);
      this.#waiting.add(request.id);
    }
  }

  /** All waiting requests in groups, in order of arrival. */
  #groups(context: SchedulerContext): Group[] {
    const { blockTokens } = context;
    const groups = new Map<number, Group>();
    for (let next = context.firstWaiting; next !== undefined; ) {
      const sequence = next;
      next = sequence.next;
      if (refuseTooLong(context, sequence, this.#rules)) continue;
      const { request } = sequence;
      const prefixBlocks = prefixBlocksOf(request, blockTokens);
      const key = groupKey(request, prefixBlocks);
      let group = groups.get(key);
      if (group === undefined) {
        group = { prefixBlocks, members: [], neededBlocks: prefixBlocks, unfinished: 0, isWarm: prefixBlocks === 0 };
        groups.set(key, group);
      }
      group.members.push(sequence);
      group.unfinished++;
      group.neededBlocks += blocksOf(request.inputTokens + request.maxOutputTokens, blockTokens) - prefixBlocks;
    }
    return [...groups.values()];
  }

  /**
   * Plans a prefill step: of a group with an uncached prefix one request, of other groups all that fit into the free blocks.
   */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    const warming = new Set<Group>();
    let remaining = this.#waiting.size;
    let isAnyAdmitted = false;
    for (let next = context.firstWaiting; next !== undefined && remaining > 0; ) {
      const sequence = next;
      next = sequence.next;
      const { id } = sequence.request;
      if (!this.#waiting.has(id)) continue;
      remaining--;
      const group = this.#groupOf.get(id)!;
      if (warming.has(group)) continue;
      const isCold = !group.isWarm && context.cachedTokens(sequence) < group.prefixBlocks * context.blockTokens;
      if (context.admit(sequence)) {
        this.#waiting.delete(id);
        isAnyAdmitted = true;
        if (isCold) warming.add(group);
        group.isWarm = true;
      } else if (running.length === 0) {
        this.#refuse(context, sequence);
      } else break;
    }
    return isAnyAdmitted;
  }

  /** Schedules a token of every running request for which a block is available; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (!decodeAll(context)) {
      const last = running[running.length - 1];
      if (running.length === 1) {
        this.#refuse(context, last);
        return false;
      }
      context.preempt(last, "recompute");
      // A sequence whose prefill was on another replica is in no batch here: it waits for the next one.
      if (this.#groupOf.has(last.request.id)) this.#waiting.add(last.request.id);
    }
    return true;
  }

  #refuse(context: SchedulerContext, sequence: SequenceView): void {
    const { request } = sequence;
    refuseOutOfBlocks(context, sequence);
    this.#waiting.delete(request.id);
    this.#leaveGroup(request);
  }

  /**
   * A request of the batch has finished; the prefix is deleted with the last one, unless the group is too large and others
   * wait.
   */
  #leaveGroup(request: RequestView): void {
    const group = this.#groupOf.get(request.id);
    const context = this.#context;
    this.#groupOf.delete(request.id);
    if (group === undefined || context === undefined || --group.unfinished > 0 || group.prefixBlocks === 0) return;
    const isTooLarge = group.neededBlocks > (context.totalBlocks ?? Number.POSITIVE_INFINITY);
    if (isTooLarge && isPrefixAwaited(request, group.prefixBlocks, context)) return;
    context.deletePrefix(request);
  }
}

const prefixBlocksOf = ({ markedTokens, promptBlocks }: RequestView, blockTokens: number) =>
  Math.min(promptBlocks, Math.floor(markedTokens / blockTokens));

/** The content id at the end of the marked prefix; a unique number for requests without one. */
const groupKey = ({ id, keys, keyStart }: RequestView, prefixBlocks: number) =>
  prefixBlocks === 0 ? -1 - id : keys[keyStart + prefixBlocks - 1];

/** Whether other waiting requests have marked this request's prefix. */
function isPrefixAwaited(request: RequestView, prefixBlocks: number, context: SchedulerContext): boolean {
  const key = groupKey(request, prefixBlocks);
  for (let other = context.firstWaiting; other !== undefined; other = other.next) {
    const blocks = prefixBlocksOf(other.request, context.blockTokens);
    if (other.request !== request && groupKey(other.request, blocks) === key) return true;
  }
  return false;
}

export const prefixGroups: SchedulerPlugin = {
  name: "prefix-groups",
  about:
    "batches of whole groups of requests with the same marked prefix, which is computed first and deleted with the last request of the group",
  source: "vLLM PrefixGroup (added to PR 1669)",
  create: ({ rules }) => new PrefixGroups(rules),
};
