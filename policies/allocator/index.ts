export { block } from "./block.ts";
export { blockQueue } from "./block-queue.ts";
