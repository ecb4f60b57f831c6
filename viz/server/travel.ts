import { type RequestHandler, Router } from "express";
import { z } from "zod";
import { EventKind, type EventName, eventNames } from "../../core/log/events.ts";
import type { PrefixData } from "../api.ts";
import { differenceOf } from "../log/difference.ts";
import type { EventHistory } from "../log/event-history.ts";
import { logOf, momentOf } from "../log/moment.ts";
import { mostPrefixes, prefixesOf } from "../log/prefixes.ts";
import type { LiveRuns } from "./live.ts";
import { between, queryOf, wholeNumber } from "./query.ts";
import { checkSameTrace } from "./runs.ts";
import type { SavedLogs } from "./saved-logs.ts";

const kindName = z.enum(eventNames as [EventName, ...EventName[]]);

const momentQuery = z
  .strictObject({
    event: wholeNumber.optional(),
    timeNs: wholeNumber.optional(),
    from: wholeNumber.optional(),
    next: kindName.optional(),
    previous: kindName.optional(),
    nodes: between(1, 20_000, 1500),
  })
  .refine(
    ({ event, timeNs, from, next, previous }) => {
      const ways = [event, timeNs, next, previous].filter((one) => one !== undefined).length;
      return ways === 1 && (from !== undefined) === (next !== undefined || previous !== undefined);
    },
    { error: "expected one of event, timeNs, from and next, from and previous" },
  );
const differenceQuery = z.strictObject({ a: z.string(), b: z.string() });
const prefixesQuery = z.strictObject({ most: between(1, mostPrefixes, 20) });
type MomentQuery = z.infer<typeof momentQuery>;

/** The routes of event logs in viz/api.ts. */
export function travelRoutes(logs: SavedLogs, live: LiveRuns): RequestHandler {
  const prefixes = new WeakMap<EventHistory, PrefixData>();
  const routes = Router();
  routes.get("/runs/:id/log", async (request, response) => {
    queryOf(z.strictObject({}), request);
    response.json(logOf((await logs.read(request.params.id)).history));
  });
  routes.get("/runs/:id/moment", async (request, response) => {
    const query = queryOf(momentQuery, request);
    const { history, policy } = await logs.read(request.params.id);
    response.json(momentOf(history, eventOf(history, query), query.nodes, policy));
  });
  routes.get("/live/:id/log", async (request, response) => {
    queryOf(z.strictObject({}), request);
    response.json(logOf((await live.log(request.params.id)).history));
  });
  routes.get("/live/:id/moment", async (request, response) => {
    const query = queryOf(momentQuery, request);
    const { history, policy } = await live.log(request.params.id);
    response.json(momentOf(history, eventOf(history, query), query.nodes, policy));
  });
  routes.get("/runs/:id/prefixes", async (request, response) => {
    const { most } = queryOf(prefixesQuery, request);
    const { history } = await logs.read(request.params.id);
    const found = prefixes.get(history) ?? prefixesOf(history);
    prefixes.set(history, found);
    response.json({ ...found, valuable: found.valuable.slice(0, most), wasted: found.wasted.slice(0, most) });
  });
  routes.get("/difference", async (request, response) => {
    const query = queryOf(differenceQuery, request);
    const [a, b] = [await logs.read(query.a), await logs.read(query.b)];
    checkSameTrace(a.row, b.row);
    // The times of a real engine differ between runs.
    response.json(differenceOf(a, b, a.row.target === "sim" && b.row.target === "sim"));
  });
  return routes;
}

/** The event of the requested moment. */
function eventOf({ log, events }: EventHistory, { event, timeNs, from = 0, next, previous }: MomentQuery): number {
  const { kind, timeNs: times } = log.columns();
  if (event !== undefined) return Math.min(event, events);
  if (timeNs !== undefined) return firstAfter(times, timeNs);
  if (next !== undefined) {
    const at = from < events ? kind.indexOf(EventKind[next], from) : -1;
    return at < 0 ? events : at;
  }
  const at = from > 0 ? kind.lastIndexOf(EventKind[previous!], Math.min(from, events) - 1) : -1;
  return Math.max(0, at);
}

/** Number of the ordered times that are at most `time`. */
function firstAfter(times: Float64Array, time: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
