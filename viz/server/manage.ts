import express, { type Request, type Response, Router } from "express";
import { InputError } from "../../core/errors.ts";
import { onlyJson } from "./body.ts";
import type { Jobs } from "./jobs.ts";
import type { LiveRuns } from "./live.ts";
import { parseChange } from "./notes.ts";
import { Refusal } from "./refusal.ts";
import { parseReportRequest, type ReportedRuns, reportedRuns } from "./reported-runs.ts";
import type { Runs } from "./runs.ts";

export interface ManagedParts {
  readonly runs: Runs;
  readonly jobs: Jobs;
  readonly live: LiveRuns;
  /** Deletes the folder of a run. @throws InputError if it is not one */
  readonly deleteRun: (id: string) => Promise<void>;
  /** A comparison as one HTML document. `metric`: the definition of the hit ratio. */
  readonly report: (runs: ReportedRuns, metric: string) => string;
}

/** Changes of saved runs: their notes, and their deletion; and documents about them. */
export function manageRoutes({ runs, jobs, live, deleteRun, report }: ManagedParts): Router {
  const routes = Router();
  const body = [onlyJson, express.json({ limit: "64kb", inflate: false })];
  routes.patch("/runs/:id", body, async (request: Request<{ id: string }>, response: Response) => {
    const change = parseChange(request.body);
    response.json(await runs.annotate(request.params.id, change));
  });
  routes.delete("/runs/:id", async (request, response) => {
    const { id } = request.params;
    await runs.row(id);
    const writer = await writerOf(id, jobs, live);
    if (writer !== undefined) throw new Refusal(409, `${JSON.stringify(id)} is being written by ${writer}`);
    try {
      await deleteRun(id);
    } catch (error) {
      if (error instanceof InputError) throw new Refusal(409, error.message);
      throw new Refusal(403, `${JSON.stringify(id)} cannot be deleted (${(error as NodeJS.ErrnoException).code})`);
    }
    await runs.notes.remove(id);
    response.status(204).end();
  });
  const selection = [onlyJson, express.json({ limit: "512kb", inflate: false })];
  routes.post("/report", selection, async (request: Request, response: Response) => {
    const { runs: ids, metric } = parseReportRequest(request.body);
    response.type("html").send(report(await reportedRuns(runs, ids), metric));
  });
  return routes;
}

/** The process that has saved the run and still runs, or that will replace it. */
async function writerOf(id: string, jobs: Jobs, live: LiveRuns): Promise<string | undefined> {
  const job = jobs.list().find(({ state, runs }) => state === "running" && runs.includes(id));
  if (job) return `job ${job.id}`;
  const active = (await live.refresh()).find((row) => !("problem" in row) && row.state !== "killed" && row.run === id);
  return active && `the active run ${JSON.stringify(active.id)}`;
}
