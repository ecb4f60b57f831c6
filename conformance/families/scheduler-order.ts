import {
  deprioritized,
  dfsWeightOrder,
  type LpmOptions,
  lofOrder,
  lpmDefaults,
  lpmOrder,
  usableTokens,
  type Waiting,
} from "../../policies/scheduler/waiting-order.ts";
import type { Family } from "../family.ts";
import { type Fields, integer, isRecord, list, name, oneOf, recordOf, tokens, Unsupported } from "../values.ts";

/** SGLang: the order in which waiting requests are admitted. */
export const schedulerOrder: Family = {
  name: "scheduler-order",
  configKeys: ["cached_prefixes", "check_threshold", "deprioritize_threshold", "lpm_fallback_queue_len", "policy"],
  ops: { order: { inputs: ["queue"], expects: { matched: "plain", deprioritized: "set", order: "plain" } } },
  start(config) {
    const policy = oneOf(config["policy"] ?? "lpm", "policy", ["lpm", "dfs-weight", "fcfs", "lof"]);
    const cached = list(config["cached_prefixes"] ?? [], "cached_prefixes").map((each) => tokens(each));
    const options = lpmOptions(config);
    return {
      run(_, { queue }) {
        const waiting = list(queue, "queue").map((each) => request(each, cached));
        const isTooLong = policy === "lpm" && waiting.length > options.maxQueue;
        const hasLookup = (policy === "lpm" || policy === "dfs-weight") && !isTooLong;
        const orders = {
          lpm: () => lpmOrder(waiting, options),
          "dfs-weight": () => dfsWeightOrder(waiting, cached),
          fcfs: () => waiting,
          lof: () => lofOrder(waiting.map(withOutput)),
        };
        return {
          order: () => orders[policy]().map(({ id }) => id),
          deprioritized: hasLookup ? [...deprioritized(waiting, options)].map(({ id }) => id) : [],
          matched: hasLookup
            ? Object.fromEntries(waiting.map((each) => [each.id, usableTokens(each)]))
            : (expected: unknown) => nothingMatched(expected, waiting),
        };
      },
    };
  },
};

function lpmOptions(config: Fields): LpmOptions {
  const setting = (key: string, min: number, initial: number) =>
    config[key] === undefined ? initial : integer(config[key], key, min);
  return {
    checkThreshold: setting("check_threshold", -1, lpmDefaults.checkThreshold),
    deprioritizeThreshold: setting("deprioritize_threshold", 0, lpmDefaults.deprioritizeThreshold),
    maxQueue: setting("lpm_fallback_queue_len", 0, lpmDefaults.maxQueue),
  };
}

interface Request extends Waiting {
  readonly id: string | number;
  readonly output: unknown;
}

function request(value: unknown, cached: readonly number[][]): Request {
  const fields = recordOf(value, "a request of the queue", ["id", "tokens", "max_new_tokens", "output_len"]);
  const own = tokens(fields["tokens"]);
  const { id, max_new_tokens: maxOutput, output_len: output = maxOutput } = fields;
  if (typeof id !== "number") name(id, "the id of a request");
  return { id: id as string | number, tokens: own, cachedTokens: longestCommon(own, cached), output };
}

function longestCommon(own: readonly number[], cached: readonly number[][]): number {
  return cached.reduce((longest, prefix) => {
    let count = 0;
    while (count < own.length && count < prefix.length && own[count] === prefix[count]) count++;
    return Math.max(longest, count);
  }, 0);
}

const withOutput = (each: Request) => ({
  ...each,
  maxOutputTokens: integer(each.output, "max_new_tokens of a request"),
});

/** Without a lookup, null and an object without entries are equal to 0. */
function nothingMatched(expected: unknown, waiting: readonly Request[]): unknown {
  if (expected === null) return null;
  if (!isRecord(expected)) throw new Unsupported("the expected value of matched is not an object");
  const zeros = Object.fromEntries(waiting.map(({ id }) => [id, 0]));
  return Object.keys(expected).length === 0 ? {} : zeros;
}
