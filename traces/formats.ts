export { mooncake } from "./mooncake.ts";
export { tokenIds } from "./token-ids.ts";
