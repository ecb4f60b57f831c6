import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type AppParts, dashboardApp, type Page } from "./app.ts";
import { Events } from "./events.ts";
import { Jobs, type JobsOptions } from "./jobs.ts";
import { LiveRuns } from "./live.ts";
import { removeStaleLiveRuns } from "./live-format.ts";
import { Runs } from "./runs.ts";
import { Tables } from "./tables.ts";

export interface DashboardOptions extends JobsOptions, Pick<AppParts, "deleteRun" | "report"> {
  readonly page: Page;
  /** 0: any free port. */
  readonly port: number;
}

export interface Dashboard {
  readonly url: string;
  /** Cancels jobs and closes every connection. */
  close(): Promise<void>;
}

/** Interval between checks for added and removed runs. */
const lookMs = 400;

/** Serves the dashboard on localhost. @throws a system error, such as EADDRINUSE */
export async function serveDashboard(options: DashboardOptions): Promise<Dashboard> {
  const runs = new Runs(options.folder);
  const jobs = new Jobs(options);
  const live = new LiveRuns(options.folder);
  const events = new Events({ runs: () => null, jobs: () => jobs.list(), live: () => live.rows });
  jobs.onChange = () => events.changed("jobs");
  const { page, sources, deleteRun, report } = options;
  const server = createServer(
    dashboardApp({ page, runs, tables: new Tables(), jobs, live, events, sources, deleteRun, report }),
  );
  server.maxConnections = 256;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  await removeStaleLiveRuns(options.folder);
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

/** A complete folder is renamed to its final name, which changes the folder that contains it: no file has to be read. */
function watch(runs: Runs, live: LiveRuns, events: Events): () => void {
  let stamp = "";
  let toldChanges: number | undefined;
  let toldLive = 0;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const look = async () => {
    // Later looks are compared with the first one, which precedes the first client.
    if (events.clientCount > 0 || toldChanges === undefined) {
      const now = await runs.stamp();
      if (now !== stamp || toldChanges === undefined) {
        stamp = now;
        await runs.list();
      }
      // Also without a change: a client may have been sent the list in between.
      if (toldChanges !== undefined && runs.changes !== toldChanges) events.changed("runs");
      toldChanges = runs.changes;
    }
    if (events.clientCount > 0) {
      await live.refresh();
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
