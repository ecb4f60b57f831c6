export { block } from "./block.ts";
