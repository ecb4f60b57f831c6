import type { SessionRow, SessionsData, SessionTurn } from "../api.ts";
import { Refusal } from "./refusal.ts";
import type { Requests } from "./requests.ts";

/** Sessions with their totals, those with the most requests first. @throws Refusal if the run has no sessions */
export function sessionsOf({ columns, total }: Requests, most: number): SessionsData {
  const session = columns.get("session");
  const missing = ["arrivalNs", "inputTokens", "hitTokens"].find((name) => !columns.has(name));
  if (missing) throw new Refusal(422, `requests.parquet is damaged (it has no column ${missing})`);
  const [numbers, arrivals, input, hits] = ["request", "arrivalNs", "inputTokens", "hitTokens"].map(
    (name) => columns.get(name)!,
  );
  const rows = new Map<number, { -readonly [Name in keyof SessionRow]: SessionRow[Name] }>();
  for (let row = 0; session && row < total; row++) {
    if (!(session[row] > 0)) continue;
    const known = rows.get(session[row]);
    if (!known) {
      rows.set(session[row], {
        ...{ session: session[row], requests: 1, firstRequest: numbers[row], firstNs: arrivals[row] },
        ...{ inputTokens: input[row], hitTokens: hits[row] },
      });
      continue;
    }
    known.requests++;
    known.inputTokens += input[row];
    known.hitTokens += hits[row];
  }
  if (rows.size === 0)
    throw new Refusal(
      404,
      session ? "the trace has no sessions" : "the run was saved without the sessions of its requests",
    );
  const sorted = [...rows.values()].sort((a, b) => b.requests - a.requests || a.session - b.session);
  return { total: rows.size, sessions: sorted.slice(0, most) };
}

/** Requests of a session, at most so many around the one that is shown. */
const mostTurns = 200;

/** The requests of the session of `row`, in their order; only itself if it has none. */
export function turnsOf({ columns, total }: Requests, row: number): SessionTurn[] {
  const session = columns.get("session");
  const rows: number[] = [];
  let at = 0;
  for (let each = 0; each < total; each++) {
    if (each !== row && (!session || session[row] === 0 || session[each] !== session[row])) continue;
    if (each === row) at = rows.length;
    rows.push(each);
  }
  const from = Math.max(0, Math.min(at - mostTurns / 2, rows.length - mostTurns));
  const value = (name: string, of: number) => columns.get(name)?.[of] ?? Number.NaN;
  return rows.slice(from, from + mostTurns).map((each) => ({
    ...{ request: value("request", each), arrivalNs: value("arrivalNs", each) },
    ...{ inputTokens: value("inputTokens", each), hitTokens: value("hitTokens", each) },
    refused: value("refused", each) === 1,
    ttftMs: Number.isNaN(value("ttftMs", each)) ? null : value("ttftMs", each),
  }));
}
