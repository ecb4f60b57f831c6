import type { RunRow } from "../../api.ts";
import type { ComparisonFigure } from "../charts/comparison-figure.ts";
import { nameOf } from "../data/comparison.ts";
import { approximate, percent, perSecond } from "../data/format.ts";
import { linkTo } from "../route.ts";
import { h } from "./dom.ts";
import { refusedText } from "./run-tiles.ts";
import { type Column, Table } from "./table.ts";

/** What the runs with a clock serve: throughput, SLO, utilisation, balance of replicas, refusals with their reasons. */
export function serviceTable(): ComparisonFigure {
  const card = h("section", { class: "card" });
  const show: ComparisonFigure["show"] = (comparison) => {
    const { rows } = comparison;
    const number = (
      name: string,
      label: string,
      of: (row: RunRow) => number | undefined,
      text: (value: number) => string,
    ): Column<RunRow>[] =>
      rows.some((row) => of(row) !== undefined)
        ? [
            {
              ...{ name, label, numeric: true, value: of },
              show: (row) => (of(row) === undefined ? "–" : text(of(row)!)),
            },
          ]
        : [];
    const table = new Table<RunRow>({
      title: "Service of the runs",
      columns: [
        {
          ...{ name: "run", label: "Run", value: ({ id }: RunRow) => nameOf(comparison, id) },
          show: ({ id }) => h("a", { href: linkTo("run", { id }) }, nameOf(comparison, id)),
        },
        ...number("rate", "Throughput, req/s", ({ requestsPerS }) => requestsPerS, perSecond),
        ...number("output", "Output tokens/s", ({ outputTokensPerS }) => outputTokensPerS, approximate),
        ...number("goodput", "Goodput, req/s", ({ goodputRequestsPerS }) => goodputRequestsPerS, perSecond),
        ...number("slo", "Meet the SLO", ({ sloAttained }) => sloAttained, percent),
        ...number("busy", "Utilisation", ({ utilisation }) => utilisation, percent),
        ...number(
          "balance",
          "Busiest replica ÷ mean",
          ({ imbalance }) => imbalance,
          (value) => `× ${value.toFixed(2)}`,
        ),
        ...(rows.some(({ refused }) => refused !== undefined)
          ? [
              {
                ...{
                  name: "refused",
                  label: "Refused, by reason",
                  numeric: false,
                  value: ({ refused = 0 }: RunRow) => refused,
                },
                show: ({ refused = 0, refusals }: RunRow) => (refused === 0 ? "0" : refusedText(refused, refusals)),
              },
            ]
          : []),
        ...(rows.some(({ limitedBy }) => limitedBy !== undefined)
          ? [{ name: "limit", label: "Limited by", value: ({ limitedBy }: RunRow) => limitedBy }]
          : []),
      ],
      key: ({ id }) => id,
    });
    table.show(rows);
    card.replaceChildren(h("div", { class: "cardhead" }, h("h2", {}, "Service"), table.saveButtons()), table.element);
  };
  return { element: card, show };
}
