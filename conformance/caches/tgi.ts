import { tgi } from "../../policies/presets/tgi.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** TGI's allocator. */
export const tgiCache = (blockTokens: number, blocks: number): CacheParts =>
  // A full hit computes its last token again where it is, also if others use that block: no copy.
  likePreset(tgi, { blockTokens, blocks, rules: { "full-hit": "stored-logits" } });
