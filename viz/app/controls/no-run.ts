import { linkTo } from "../route.ts";
import { h } from "./dom.ts";

/** The content of a view of one run whose address names none. */
export const noRunNamed = (title: string): Node[] => [
  h("h1", {}, title),
  h("p", { class: "problem", role: "alert" }, "The address names no run."),
  h("p", {}, h("a", { href: linkTo("runs") }, "All runs")),
];
