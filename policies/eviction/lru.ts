import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

const byRelease = byScore("lastAccess");
const byNumber = byScore("lastAccess", (entry) => entry);

/**
 * Evicts the least recently used entry; entries released by the same request go in release order. With the rule
 * `node-match=whole`, TGI's, of entries that are equally old the one with the smallest number is evicted first. Numbers of
 * evicted entries are used again, the last one first.
 */
export const lru: EvictionPlugin = {
  name: "lru",
  about: "evicts the least recently used entry",
  source: "vLLM, SGLang, TGI, LightLLM",
  columns: (rules) => (rules["node-match"] === "whole" ? ["lastAccess"] : byRelease.columns(rules)),
  create: (context) => (context.rules["node-match"] === "whole" ? byNumber : byRelease).create(context),
};
