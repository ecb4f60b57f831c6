import { type IncomingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";
import { comparisonReport } from "../../lab/dashboard/comparison-report.ts";
import { type SourceFolders, sourcesIn } from "../../lab/dashboard/sources.ts";
import { deleteRun, linkRun } from "../../lab/output/run-directory.ts";
import type { Job } from "../../viz/api.ts";
import { type Dashboard, type DashboardOptions, serveDashboard } from "../../viz/server/serve.ts";
import { fromBuild } from "../cli/program.ts";

const page = {
  html: "<!doctype html><title>a page</title>",
  files: new Map([["app.js", { type: "text/javascript", bytes: new TextEncoder().encode("let a = 1;") }]]),
};

const open: Dashboard[] = [];
afterAll(async () => {
  for (const dashboard of open) await dashboard.close();
});

/** The real server over a folder of runs, at a free port. */
export async function dashboardOver(
  folder: string,
  { traces = [], policies, models, ...others }: Partial<SourceFolders & DashboardOptions> = {},
): Promise<Client> {
  const dashboard = await serveDashboard({
    page,
    folder,
    port: 0,
    program: [process.execPath, ...fromBuild()],
    sources: () => sourcesIn({ traces, policies, models }),
    keep: (saved, id) => linkRun(saved, join(folder, id)),
    deleteRun: (id) => deleteRun(join(folder, id)),
    report: comparisonReport,
    ...others,
  });
  open.push(dashboard);
  return new Client(dashboard);
}

export interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Sends a server exactly the given request. */
export class Client {
  readonly dashboard: Dashboard;
  readonly port: number;

  constructor(dashboard: Dashboard) {
    this.dashboard = dashboard;
    this.port = Number(new URL(dashboard.url).port);
  }

  /** Sends a request; the path is not normalised. */
  request(path: string, { method = "GET", headers = {}, body = "" } = {}): Promise<Response> {
    return new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port: this.port, method, path, headers, agent: false }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode!, headers: response.headers, text }));
      });
      sent.on("error", reject).end(body);
    });
  }

  /** @throws the server's refusal */
  async get<Body>(path: string): Promise<Body> {
    const { status, text } = await this.request(path);
    if (status !== 200) throw new Error(`${status} ${text}`);
    return JSON.parse(text) as Body;
  }

  post(body: unknown, headers: Record<string, string> = {}, path = "/api/jobs"): Promise<Response> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const all = { "content-type": "application/json", "content-length": `${Buffer.byteLength(text)}`, ...headers };
    return this.request(path, { method: "POST", headers: all, body: text });
  }

  /** Changes the notes of a run. */
  patch(id: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const all = { "content-type": "application/json", "content-length": `${Buffer.byteLength(text)}`, ...headers };
    return this.request(`/api/runs/${id}`, { method: "PATCH", headers: all, body: text });
  }

  async start(body: unknown): Promise<Job> {
    const { status, text } = await this.post(body);
    if (status !== 201) throw new Error(`${status} ${text}`);
    return JSON.parse(text) as Job;
  }

  /** The job, once the condition is true. */
  async until(id: number, isSo: (job: Job) => boolean): Promise<Job> {
    for (;;) {
      const job = (await this.get<Job[]>("/api/jobs")).find((each) => each.id === id)!;
      if (isSo(job)) return job;
      await sleep(20);
    }
  }
}
