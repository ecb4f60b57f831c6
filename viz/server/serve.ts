import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dashboardApp, type Page } from "./app.ts";
import { Events } from "./events.ts";
import { Jobs, type JobsOptions } from "./jobs.ts";
import { LiveRuns } from "./live.ts";
import { clearLeft } from "./live-format.ts";
import { Runs } from "./runs.ts";
import { Tables } from "./tables.ts";

export interface DashboardOptions extends JobsOptions {
  readonly page: Page;
  /** 0: any that is free. */
  readonly port: number;
}

export interface Dashboard {
  readonly url: string;
  /** Cancels what was started, and ends every connection. */
  close(): Promise<void>;
}

/** How often is looked whether runs have come or gone. */
const lookMs = 400;

/** Serves the dashboard to this machine alone. @throws an error of the system, such as EADDRINUSE */
export async function serveDashboard(options: DashboardOptions): Promise<Dashboard> {
  const runs = new Runs(options.folder);
  const jobs = new Jobs(options);
  const live = new LiveRuns(options.folder);
  const events = new Events({ runs: () => null, jobs: () => jobs.list(), live: () => live.rows });
  jobs.onChange = () => events.changed("jobs");
  const { page, sources } = options;
  const server = createServer(dashboardApp({ page, runs, tables: new Tables(), jobs, live, events, sources }));
  server.maxConnections = 256;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  await clearLeft(options.folder);
  await jobs.clearLeft();
  const stopWatching = watch(runs, live, events);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    async close() {
      stopWatching();
      await jobs.close();
      events.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Folders are renamed to their names when they are complete, which changes the folder that they are in: no file is read meanwhile. */
function watch(runs: Runs, live: LiveRuns, events: Events): () => void {
  let stamp = "";
  let toldChanges: number | undefined;
  let toldLive = 0;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const look = async () => {
    // The first look is what later ones are compared with, and comes before there is anybody to be told.
    if (events.clientCount > 0 || toldChanges === undefined) {
      const now = await runs.stamp();
      if (now !== stamp || toldChanges === undefined) {
        stamp = now;
        await runs.list();
        // Also if it is as it was: somebody may have been shown it in between.
        if (toldChanges !== undefined && runs.changes !== toldChanges) events.changed("runs");
        toldChanges = runs.changes;
      }
    }
    if (events.clientCount > 0) {
      await live.look();
      if (live.changes !== toldLive) events.changed("live");
      toldLive = live.changes;
    }
    if (!isOver) timer = setTimeout(() => void look(), lookMs).unref();
  };
  void look();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
