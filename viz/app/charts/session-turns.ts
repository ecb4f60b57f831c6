import type { SessionTurn } from "../../api.ts";
import { approximate, integer, milliseconds } from "../data/format.ts";
import type { Line } from "../data/lines.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart } from "./line-chart.ts";

/** Prompt tokens and cached tokens of the requests of a session, in their order; `open` is called with a request. */
export function sessionFigure(
  turns: readonly SessionTurn[],
  open: (request: number) => void,
  signal: AbortSignal,
): HTMLElement {
  const { element, body } = figure("Requests of the session");
  const textOf = ({ request, hitTokens, inputTokens, ttftMs, refused }: SessionTurn) =>
    [
      `request #${request}`,
      refused ? "refused" : `${integer(hitTokens)} of ${integer(inputTokens)} tokens cached`,
      ...(ttftMs === null ? [] : [`TTFT ${milliseconds(ttftMs)}`]),
    ].join("\n");
  const line = (label: string, variant: number, of: (turn: SessionTurn) => number): Line => ({
    ...{ label, style: { colour: `var(--c${variant === 0 ? 7 : 2})`, variant } },
    points: turns.map((turn, i) => ({ x: i + 1, y: of(turn), text: textOf(turn) })),
  });
  const chart = new LineChart(body, {
    title: "Prompt tokens and cached tokens of the requests of the session",
    x: { label: "request of the session", format: (turn) => (Number.isInteger(turn) ? String(turn) : "") },
    y: { label: "tokens", fromZero: true, format: approximate },
    ...{ marks: true, height: 290, open: (_, point) => open(turns[point].request) },
  });
  onWidth(body, signal, () => chart.draw());
  chart.update([line("prompt", 0, ({ inputTokens }) => inputTokens), line("cached", 1, ({ hitTokens }) => hitTokens)]);
  return element;
}
