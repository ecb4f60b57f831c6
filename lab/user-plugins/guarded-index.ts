import { InputError } from "../../core/errors.ts";
import type { IndexHost, IndexPlugin, PrefixIndex } from "../../core/plugins/index.ts";
import { indexHooks } from "../../core/plugins/optional-methods.ts";
import { parseRule } from "../../core/plugins/rules.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import type { Guard } from "./guard.ts";
import { IndexState, noContent } from "./index-state.ts";
import { messageOf } from "./user-code.ts";

/** @throws InputError if a supported rule is unknown, or the index does not support its own defaults */
export function checkRules(file: string, plugin: IndexPlugin): void {
  const invalid = (problem: string) => new InputError(`${file}: ${problem}`);
  for (const [name, values] of Object.entries(plugin.supports)) {
    if (values !== "any" && !Array.isArray(values))
      throw invalid(`supports.${name} is ${JSON.stringify(values)}, expected "any" or a list of values`);
  }
  try {
    for (const [name, values] of Object.entries(plugin.supports))
      for (const value of values === "any" ? [] : values) parseRule(name, String(value));
    for (const [name, value] of Object.entries(plugin.defaults ?? {})) parseRule(name, String(value));
  } catch (error) {
    throw invalid(messageOf(error));
  }
  try {
    rulesFor(plugin, {});
  } catch (error) {
    throw invalid(`${messageOf(error)}, so { defaults } must contain one of them`);
  }
}

const plain = ["matched", "referenced", "drop", "isEvictable", "entryOf", "expectKeys"];
const contract = {
  noun: "index",
  required: ["match", "insert", "released", "evict", "blocks", "grow", ...plain],
  optional: indexHooks,
  numbers: ["evictableBlocks", "blockCount", "entryCount"],
  flags: ["remembersEvicted"],
};

/**
 * The index with every call guarded and its results compared with the calls to the host.
 *
 * @throws InputError if its rules are invalid; its methods throw a PolicyError with file, method and request
 */
export function guardedIndex(plugin: IndexPlugin, guard: Guard): IndexPlugin {
  checkRules(guard.file, plugin);
  return {
    ...plugin,
    create(context, blockCount) {
      guard.request = undefined;
      const state = new IndexState(blockCount);
      const recorded = { ...context, host: recordingHost(context.host, state) };
      const index = guard.call("create", () => plugin.create(recorded, blockCount));
      const made = guard.object(index, contract);
      return checked(made, index.leaves, state, guard);
    },
  };
}

/** Compares each result of the guarded index `made` with `state`. */
function checked(made: PrefixIndex, leaves: PrefixIndex["leaves"], state: IndexState, guard: Guard): PrefixIndex {
  const { match, insert, released, evict, evictMany, grow, entryOf, isEvictable, blocks } = made;
  made.blocks = () => guard.call("blocks", () => [...blocks()]);
  made.grow = (count) => {
    state.grow(count);
    grow(count);
  };
  made.match = (keys, start, count, table, found) => {
    match(keys, start, count, table, found);
    const length = found.blocks;
    if (!(Number.isInteger(length) && length >= 0 && length <= count))
      throw guard.error("match()", `found ${length} of ${count} blocks`);
    for (let i = 0; i < count; i++) {
      const isFound = table[i] >= 0 || i < length;
      if (isFound && !state.has(table[i], keys[start + i]))
        throw guard.error("match()", `found block ${table[i]} at place ${i}, which ${state.fault(table[i])}`);
    }
  };
  made.insert = (insertion) => {
    const isUnchanged: unknown = insert(insertion);
    if (typeof isUnchanged !== "boolean") throw guard.result("insert", isUnchanged, "true or false");
    const { keys, start, table, from, to, replacements } = insertion;
    for (let i = from; i < to; i++) {
      const block = isUnchanged ? table[i] : replacements[i - from];
      if (block === table[i]) state.published(block, keys[start + i]);
      else if (block !== noContent && !state.has(block, keys[start + i]))
        throw guard.error("insert()", `replaced block ${table[i]} by ${block}, which ${state.fault(block)}`);
    }
    return isUnchanged;
  };
  made.released = (released_, count) => {
    released(released_, count);
    for (let i = 0; i < count; i++) {
      const entry = entryOf(released_[i]);
      if (!state.isEvictable(entry) && isEvictable(entry))
        throw guard.error("released()", `did not report entry ${entry} as evictable to the host`);
    }
  };
  made.evict = (entry, wantedBlocks) => {
    state.setEvictable(entry, false);
    const before = state.evictedBlocks;
    evict(entry, wantedBlocks);
    if (state.evictedBlocks === before) throw guard.error(`evict(${entry})`, "reported no block to host.evicted");
  };
  if (evictMany)
    made.evictMany = (entries, from, to) => {
      for (let i = from; i < to; i++) state.setEvictable(entries[i], false);
      state.removed(entries, from, to);
      evictMany(entries, from, to);
    };
  if (!leaves) return made;
  const evictLeaf = (entry: number) => {
    state.setEvictable(entry, false);
    state.removed([entry], 0, 1);
    const parent = guard.call("evictLeaf", () => leaves.evictLeaf(entry));
    if (parent >= 0) state.setEvictable(parent, true);
    return parent;
  };
  return Object.assign(made, { leaves: { evictLeaf } });
}

/** The host of the index, which also records evictable entries and removed blocks. */
function recordingHost(host: IndexHost, state: IndexState): IndexHost {
  return {
    get columns() {
      return host.columns;
    },
    get countsHits() {
      return host.countsHits;
    },
    isIdle: (block) => host.isIdle(block),
    isPinned: (block) => host.isPinned(block),
    created: (entry, depth, tokens, key) => host.created(entry, depth, tokens, key),
    createdBlocks: (insertion, from, to) => host.createdBlocks(insertion, from, to),
    hit: (entry) => host.hit(entry),
    touch: (entry) => host.touch(entry),
    evictable(entry) {
      state.setEvictable(entry, true);
      host.evictable(entry);
    },
    touchMany: (entries, count) => host.touchMany(entries, count),
    released(entries, count) {
      for (let i = 0; i < count; i++) state.setEvictable(entries[i], true);
      host.released(entries, count);
    },
    blocked(entry) {
      state.setEvictable(entry, false);
      host.blocked(entry);
    },
    dropped(entry, wasEvictable) {
      state.setEvictable(entry, false);
      host.dropped(entry, wasEvictable);
    },
    split: (lower, upper, depth, tokens) => host.split(lower, upper, depth, tokens),
    resized: (entry, depth, tokens, key) => host.resized(entry, depth, tokens, key),
    evicted(blocks, count) {
      state.removed(blocks, 0, count);
      host.evicted(blocks, count);
    },
    blockDropped(block) {
      state.removed([block], 0, 1);
      host.blockDropped(block);
    },
  };
}
