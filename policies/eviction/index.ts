export { belady } from "./belady.ts";
export { fifo } from "./fifo.ts";
export { lru } from "./lru.ts";
export { random } from "./random.ts";
export { unbounded } from "./unbounded.ts";
