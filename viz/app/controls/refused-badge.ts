import type { RunRow } from "../../api.ts";
import { integer } from "../data/format.ts";
import { h } from "./dom.ts";

/** How many requests were refused; a run that refused all has served nothing. */
export const refusedBadge = ({ refused = 0, requests }: RunRow): HTMLElement =>
  h(
    "span",
    { class: refused === requests ? "badge bad" : "badge" },
    refused === requests ? "refused every request" : `refused ${integer(refused)}`,
  );
