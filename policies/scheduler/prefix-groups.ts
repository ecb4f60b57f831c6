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
import { refuseForRoom, refuseTooLong } from "./room.ts";

/** Requests that have marked the same prefix; a request without one is a group by itself. */
interface Group {
  /** Blocks of the prefix; 0 = none. */
  readonly prefixBlocks: number;
  /** Its members in this batch. */
  readonly members: SequenceView[];
  /** Blocks of the prefix, and for each member those of the rest of its prompt and of its longest answer. */
  neededBlocks: number;
  /** Members that have not finished. */
  left: number;
  /** The prefix is computed, or is not computed by one member for the others. */
  isWarm: boolean;
}

/**
 * Batches of whole groups. A batch is filled with groups of waiting requests, those that need most blocks first, as far as
 * they fit. The first member of each computes the prefix for the others, which are admitted in the next step; the prefix is
 * deleted when the last of them has finished. Then the next batch is chosen from the waiting requests. Groups that do not
 * fit alone are served last, request by request.
 *
 * Source: vLLM PrefixGroup (added to PR 1669), where all requests are known from the beginning. Here a large group can wait
 * for as long as smaller ones arrive.
 */
class PrefixGroups implements Scheduler {
  readonly #rules: Rules;
  /** Of the batch, by request. */
  readonly #groupOf = new Map<number, Group>();
  /** Requests of the batch that wait. */
  readonly #waiting = new Set<number>();
  /** The replica, whose prefixes are deleted when requests end. */
  #context: SchedulerContext | undefined;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  plan(context: SchedulerContext): PlanValidity {
    const { running } = context;
    this.#context = context;
    for (;;) {
      if (running.length === 0 && this.#waiting.size === 0 && !this.#choose(context)) break;
      if (this.#waiting.size > 0 && this.#prefill(context)) break;
      if (running.length > 0 && this.#decode(context)) break;
    }
    return this.#waiting.size === 0 ? "until-change" : undefined;
  }

  finished({ request }: SequenceView): void {
    this.#end(request);
  }

  /** Chooses the next batch; false if no request waits. */
  #choose(context: SchedulerContext): boolean {
    this.#groupOf.clear();
    const groups = this.#groups(context);
    if (groups.length === 0) return false;
    let room = context.totalBlocks ?? Number.POSITIVE_INFINITY;
    for (const group of groups.toSorted((a, b) => b.neededBlocks - a.neededBlocks)) {
      if (group.neededBlocks > room) continue;
      room -= group.neededBlocks;
      this.#take(group);
    }
    // No group fits alone.
    if (this.#waiting.size === 0) {
      const [{ prefixBlocks, members, neededBlocks }] = groups;
      this.#take({ prefixBlocks, members: [members[0]], neededBlocks, left: 1, isWarm: true });
    }
    return true;
  }

  #take(group: Group): void {
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
        group = { prefixBlocks, members: [], neededBlocks: prefixBlocks, left: 0, isWarm: prefixBlocks === 0 };
        groups.set(key, group);
      }
      group.members.push(sequence);
      group.left++;
      group.neededBlocks += blocksOf(request.inputTokens + request.maxOutputTokens, blockTokens) - prefixBlocks;
    }
    return [...groups.values()];
  }

  /** A prefill step: one request of a group whose prefix is not cached, of the other groups all that have blocks. */
  #prefill(context: SchedulerContext): boolean {
    const { running } = context;
    const warming = new Set<Group>();
    let left = this.#waiting.size;
    let isAny = false;
    for (let next = context.firstWaiting; next !== undefined && left > 0; ) {
      const sequence = next;
      next = sequence.next;
      const { id } = sequence.request;
      if (!this.#waiting.has(id)) continue;
      left--;
      const group = this.#groupOf.get(id)!;
      if (warming.has(group)) continue;
      const isCold = !group.isWarm && context.cachedTokens(sequence) < group.prefixBlocks * context.blockTokens;
      if (context.admit(sequence)) {
        this.#waiting.delete(id);
        isAny = true;
        if (isCold) warming.add(group);
        group.isWarm = true;
      } else if (running.length === 0) {
        this.#refuse(context, sequence);
      } else break;
    }
    return isAny;
  }

  /** Schedules a token of all running requests that have blocks; returns false if no request is left. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    while (!decodeAll(context)) {
      const last = running[running.length - 1];
      if (running.length === 1) {
        this.#refuse(context, last);
        return false;
      }
      context.preempt(last, "recompute");
      this.#waiting.add(last.request.id);
    }
    return true;
  }

  #refuse(context: SchedulerContext, sequence: SequenceView): void {
    const { request } = sequence;
    refuseForRoom(context, sequence);
    this.#waiting.delete(request.id);
    this.#end(request);
  }

  /** A request of the batch has finished; the prefix is deleted with the last one, unless the group is too large and others wait. */
  #end(request: RequestView): void {
    const group = this.#groupOf.get(request.id);
    const context = this.#context;
    this.#groupOf.delete(request.id);
    if (group === undefined || context === undefined || --group.left > 0 || group.prefixBlocks === 0) return;
    const isTooLarge = group.neededBlocks > (context.totalBlocks ?? Number.POSITIVE_INFINITY);
    if (isTooLarge && someWaitFor(request, group.prefixBlocks, context)) return;
    context.deletePrefix(request);
  }
}

const prefixBlocksOf = ({ markedTokens, promptBlocks }: RequestView, blockTokens: number) =>
  Math.min(promptBlocks, Math.floor(markedTokens / blockTokens));

/** The content id at the end of the marked prefix; a unique number for requests without one. */
const groupKey = ({ id, keys, keyStart }: RequestView, prefixBlocks: number) =>
  prefixBlocks === 0 ? -1 - id : keys[keyStart + prefixBlocks - 1];

/** Whether other waiting requests have marked this request's prefix. */
function someWaitFor(request: RequestView, prefixBlocks: number, context: SchedulerContext): boolean {
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
    "batches of whole groups that marked the same prefix, which is computed first and deleted with the last of them",
  source: "vLLM PrefixGroup (added to PR 1669)",
  create: ({ rules }) => new PrefixGroups(rules),
};
