import { tgi } from "../../policies/presets/tgi.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** Cases call the allocator alone: its queue subtracts the last token of a full hit, and admits again after a failure. */
const rules = { "full-hit": "rewrite-last", "node-match": "split", "failed-admission": "unchanged" } as const;

/** TGI's allocator. */
export const tgiCache = (blockTokens: number, blocks: number): CacheParts =>
  likePreset(tgi, { blockTokens, blocks, rules });
