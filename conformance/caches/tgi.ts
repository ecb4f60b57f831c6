import { tgi } from "../../policies/presets/tgi.ts";
import { type CacheParts, likePreset } from "./driven-cache.ts";

/** TGI's allocator. */
export const tgiCache = (blockTokens: number, blocks: number): CacheParts => likePreset(tgi, { blockTokens, blocks });
