export { block } from "./block.ts";
export { blockList } from "./block-list.ts";
export { blockQueue } from "./block-queue.ts";
export { token } from "./token.ts";
export { tokenContiguous } from "./token-contiguous.ts";
