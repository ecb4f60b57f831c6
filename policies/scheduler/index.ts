export { naive } from "./naive.ts";
