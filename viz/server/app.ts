import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { z } from "zod";
import { onlyJson } from "./body.ts";
import { curvesDetail, listCurves } from "./curves.ts";
import type { Events } from "./events.ts";
import { guard, headers } from "./guard.ts";
import type { Sources } from "./job-words.ts";
import { latencySeriesOf } from "./latency-series.ts";
import { type ManagedParts, manageRoutes } from "./manage.ts";
import { between, queryOf, wholeNumber } from "./query.ts";
import { Refusal } from "./refusal.ts";
import { requestRoutes } from "./request-routes.ts";
import { pairsOf, Requests } from "./requests.ts";
import { checkSameTrace } from "./runs.ts";
import { SavedLogs } from "./saved-logs.ts";
import { arrivalSeriesOf, seriesOf } from "./series.ts";
import { listSizes, sizeDetail } from "./sizes.ts";
import type { Table, Tables } from "./tables.ts";
import { travelRoutes } from "./travel.ts";

/** The page: its document, and the files that it loads, by name. */
export interface Page {
  readonly html: string;
  readonly files: ReadonlyMap<string, { readonly type: string; readonly bytes: Uint8Array }>;
}

export interface AppParts extends ManagedParts {
  readonly page: Page;
  readonly tables: Tables;
  readonly events: Events;
  readonly sources: () => Promise<Sources>;
}

const seriesQuery = z.strictObject({
  fromNs: wholeNumber.default(0),
  toNs: wholeNumber.default(Number.MAX_SAFE_INTEGER),
  bins: between(1, 4096, 600),
});
const requestsQuery = z.strictObject({ points: between(1, 20_000, 2000) });
const pairsQuery = z.strictObject({
  a: z.string(),
  b: z.string(),
  metric: z.string().max(100).default("hitRatio"),
  points: between(1, 20_000, 2000),
});

/** The API of viz/api.ts, and the page. */
export function dashboardApp(parts: AppParts): Express {
  const { page, runs, tables, jobs, live, events, sources } = parts;
  const app = express();
  app.disable("x-powered-by").disable("etag").enable("case sensitive routing").set("query parser", "simple");
  app.use(headers, guard);
  app.use("/api", (_request, response, next) => {
    response.set("cache-control", "no-store");
    next();
  });

  const tableOf = async (id: string, name: string): Promise<Table | undefined> => {
    const file = await runs.file(id, name);
    return file && (await tables.read(file));
  };
  /** Derived columns are computed once for a cached table. */
  const requestsOfTables = new WeakMap<Table, Requests>();
  const requestsOf = async (id: string): Promise<Requests> => {
    const table = await tableOf(id, "requests.parquet");
    if (!table) throw new Refusal(404, "the run has no requests.parquet");
    const known = requestsOfTables.get(table) ?? new Requests(table);
    requestsOfTables.set(table, known);
    return known;
  };

  app.get("/api/runs", async (_request, response) => {
    response.type("json").send(await runs.listed());
  });
  app.get("/api/runs/:id", async (request, response) => {
    response.json(await runs.detail(request.params.id));
  });
  app.get("/api/curves", async (_request, response) => {
    response.json({ schema: "curves/1", curves: await listCurves(runs) });
  });
  app.get("/api/curves/:id", async (request, response) => {
    response.json(await curvesDetail(runs, request.params.id));
  });
  app.get("/api/sizes", async (_request, response) => {
    response.json({ schema: "sizes/1", sizes: await listSizes(runs) });
  });
  app.get("/api/sizes/:id", async (request, response) => {
    response.json(await sizeDetail(runs, request.params.id));
  });
  app.get("/api/runs/:id/series", async (request, response) => {
    const { id } = request.params;
    const range = queryOf(seriesQuery, request);
    const series = await tableOf(id, "series.parquet");
    if (series) {
      const data = seriesOf(series, range);
      // A damaged table of requests does not hide the series.
      const requests = await requestsOf(id).catch(() => undefined);
      const latency = requests && latencySeriesOf(requests.columns, data);
      return void response.json({ ...data, ...(latency && { latency }) });
    }
    const requests = await tableOf(id, "requests.parquet");
    if (!requests) throw new Refusal(404, "the run has neither series.parquet nor requests.parquet");
    response.json(arrivalSeriesOf(requests, range));
  });
  app.get("/api/runs/:id/requests", async (request, response) => {
    const { points } = queryOf(requestsQuery, request);
    response.json((await requestsOf(request.params.id)).drawn(points));
  });
  app.get("/api/pairs", async (request, response) => {
    const { a, b, metric, points } = queryOf(pairsQuery, request);
    const [left, right] = [(await runs.detail(a)).row, (await runs.detail(b)).row];
    checkSameTrace(left, right);
    response.json(pairsOf(await requestsOf(a), await requestsOf(b), metric, points));
  });
  app.use("/api", manageRoutes(parts));
  const logs = new SavedLogs(runs);
  app.use("/api", travelRoutes(logs, live));
  app.use("/api", requestRoutes({ runs, logs, requestsOf }));
  app.get("/api/choices", async (_request, response) => {
    response.json((await sources()).choices);
  });
  app.get("/api/jobs", (_request, response) => {
    response.json(jobs.list());
  });
  const body = [onlyJson, express.json({ limit: "16kb", inflate: false })];
  app.post("/api/command", body, async (request: Request, response: Response) => {
    response.json(await jobs.command(request.body));
  });
  app.post("/api/jobs", body, async (request: Request, response: Response) => {
    response.status(201).json(await jobs.submit(request.body));
  });
  app.delete("/api/jobs/:id", (request, response) => {
    const { id } = request.params;
    if (!/^\d{1,9}$/.test(id)) throw new Refusal(400, `a job is a number, not ${JSON.stringify(id.slice(0, 100))}`);
    response.status(202).json(jobs.cancel(Number(id)));
  });
  app.get("/api/live", async (_request, response) => {
    response.json({ schema: "live/1", live: await live.refresh() });
  });
  app.get("/api/live/:id", async (request, response) => {
    response.json(await live.row(request.params.id));
  });
  app.delete("/api/live/:id", async (request, response) => {
    await live.dismiss(request.params.id);
    events.changed("live");
    response.status(204).end();
  });
  app.get("/api/live/:id/series", async (request, response) => {
    const range = queryOf(seriesQuery, request);
    const { id } = request.params;
    const data = seriesOf(await live.series(id), range);
    const requests = await live.requests(id);
    const latency = requests && latencySeriesOf(requests.columns, data);
    response.json({ ...data, ...(latency && { latency }) });
  });
  app.get("/api/events", async (request, response) => {
    if (request.method === "HEAD") return void response.end();
    // The first message is not older than the request.
    await live.refresh();
    if (request.socket.destroyed) return;
    events.add(request, response);
  });

  app.get("/", (_request, response) => {
    response.set("cache-control", "no-cache").type("html").send(page.html);
  });
  app.get("/:name", (request, response, next) => {
    const file = page.files.get(request.params.name);
    if (!file) return next();
    response.set({ "cache-control": "no-cache", "content-type": file.type }).send(Buffer.from(file.bytes));
  });
  app.use((request) => {
    throw new Refusal(404, `there is no ${request.method} ${request.path.slice(0, 100)}`);
  });
  app.use(respondToError);
  return app;
}

/** Responds to any error with one line of JSON. Express recognises an error handler by its four parameters. */
function respondToError(error: unknown, _request: Request, response: Response, _next: NextFunction): void {
  if (response.headersSent) return void response.destroy();
  const status = statusOf(error);
  const message = error instanceof Error ? error.message : String(error);
  if (status >= 500 && !(error instanceof Refusal))
    process.stderr.write(`kvlab: dashboard: ${message.split("\n")[0]}\n`);
  response.status(status).json({ error: message.replace(/\s*\n\s*/g, " ") });
}

/** The status of an error; also of those of express: a body that is too long or not JSON, an address that cannot be decoded. */
function statusOf(error: unknown): number {
  const { status } = error as { status?: unknown };
  return typeof status === "number" && status >= 400 && status < 600 ? status : 500;
}
