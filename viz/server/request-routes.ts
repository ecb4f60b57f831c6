import { type RequestHandler, Router } from "express";
import { z } from "zod";
import type { RequestHistory } from "../api.ts";
import { requestLogOf } from "../log/request-log.ts";
import { between, queryOf, wholeNumber } from "./query.ts";
import { Refusal } from "./refusal.ts";
import { replicasOf } from "./replicas.ts";
import type { Requests } from "./requests.ts";
import type { Runs } from "./runs.ts";
import type { SavedLogs } from "./saved-logs.ts";
import { sessionsOf, turnsOf } from "./sessions.ts";
import { Tables } from "./tables.ts";

interface RequestRouteParts {
  readonly runs: Runs;
  readonly logs: SavedLogs;
  readonly requestsOf: (id: string) => Promise<Requests>;
}

const replicasQuery = z.strictObject({ bins: between(1, 400, 60) });
const sessionsQuery = z.strictObject({ most: between(1, 1000, 50) });
const historyQuery = z.strictObject({ request: wholeNumber });

/** The routes of replicas, sessions and single requests in viz/api.ts. */
export function requestRoutes({ runs, logs, requestsOf }: RequestRouteParts): RequestHandler {
  const stepTables = new Tables({ mostTables: 2, columns: ["replica", "startNs", "durationNs"] });
  /** Undefined if there is none, or it is too large. */
  const stepsOf = async (id: string) => {
    const file = await runs.file(id, "steps.parquet");
    return file && (await stepTables.read(file).catch(() => undefined));
  };
  const routes = Router();
  routes.get("/runs/:id/replicas", async (request, response) => {
    const { bins } = queryOf(replicasQuery, request);
    const { id } = request.params;
    response.json(replicasOf(await requestsOf(id), await stepsOf(id), bins));
  });
  routes.get("/runs/:id/sessions", async (request, response) => {
    const { most } = queryOf(sessionsQuery, request);
    response.json(sessionsOf(await requestsOf(request.params.id), most));
  });
  routes.get("/runs/:id/history", async (request, response) => {
    const query = queryOf(historyQuery, request);
    const { id } = request.params;
    const requests = await requestsOf(id);
    const row = requests.columns.get("request")!.indexOf(query.request);
    if (row < 0) throw new Refusal(404, `the run has no request ${query.request}`);
    response.json({
      request: query.request,
      columns: Object.fromEntries([...requests.columns].map(([name, values]) => [name, numberOrNull(values[row])])),
      session: turnsOf(requests, row),
      ...(await logOf(logs, id, requests, row)),
    } satisfies RequestHistory);
  });
  return routes;
}

const numberOrNull = (value: number) => (Number.isNaN(value) ? null : value);

/** A run without a log, or with one that cannot be shown, has the times of its requests nevertheless. */
async function logOf(
  logs: SavedLogs,
  id: string,
  { columns }: Requests,
  row: number,
): Promise<Pick<RequestHistory, "log" | "noLog">> {
  try {
    const { history } = await logs.read(id);
    const value = (name: string) => columns.get(name)?.[row] ?? 0;
    const of = { request: value("request"), inputTokens: value("inputTokens"), promptBlocks: value("promptBlocks") };
    return { log: requestLogOf(history, of) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { log: null, noLog: error.message };
  }
}
