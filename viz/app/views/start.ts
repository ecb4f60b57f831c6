import type { Choices, Job } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { jobForm } from "../controls/job-form.ts";
import { refusedBadge } from "../controls/refused-badge.ts";
import { type Column, Table } from "../controls/table.ts";
import { errorText, get, isBroken, request } from "../data/server.ts";
import { idList, linkTo } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** A form that starts replays and comparisons, and the jobs with their progress. */
export const startView: View = { name: "start", title: "Start", menuOrder: 5, show: showStart };

async function showStart(context: ViewContext): Promise<void> {
  const { root, server, signal } = context;
  root.append(h("h1", {}, "Start"));
  try {
    const choices = await get<Choices>("api/choices", signal);
    if (signal.aborted) return;
    const jobs = new Table<Job>({ title: "Jobs", columns: jobColumns(context), key: ({ id }) => id });
    const none = h("p", { class: "hint" }, "No jobs have been started.");
    root.append(
      jobForm(choices, context),
      h("section", { class: "card" }, h("div", { class: "cardhead" }, h("h2", {}, "Jobs")), none, jobs.element),
    );
    const draw = () => {
      none.hidden = server.jobs.length > 0;
      jobs.element.hidden = server.jobs.length === 0;
      jobs.show(server.jobs);
    };
    draw();
    server.watch(draw, signal);
    server.watchActiveRuns(draw, signal);
  } catch (error) {
    if (!signal.aborted) root.append(h("p", { class: "problem", role: "alert" }, (error as Error).message));
  }
}

const jobColumns = ({ server }: ViewContext): Column<Job>[] => [
  { name: "id", label: "Job", value: ({ id }: Job) => id },
  { name: "state", label: "State", value: ({ state }: Job) => state },
  { name: "progress", label: "Progress", value: ({ progress }: Job) => progress, show: progressOf },
  {
    name: "output",
    label: "Last output",
    value: ({ lastOutput }: Job) => lastOutput,
    show: ({ lastOutput }: Job) => h("span", { class: "id" }, lastOutput),
  },
  {
    name: "runs",
    label: "Runs",
    value: ({ runs }: Job) => runs.length,
    show: (job: Job) => liveOf(job, server) ?? runsOf(job, server),
  },
  {
    name: "command",
    label: "Command",
    value: ({ command }: Job) => command,
    show: ({ command }: Job) => h("code", { class: "id" }, command),
  },
  { name: "cancel", label: "", value: () => "", show: cancelOf },
];

function progressOf({ id, state, progress }: Job): Node {
  if (state === "waiting") return h("span", {}, "–");
  if (state !== "running") return h("span", {}, progress === null ? "–" : `${Math.round(progress * 100)}%`);
  return h("progress", { "aria-label": `Progress of job ${id}`, max: 1, value: progress ?? undefined });
}

/** A link to the live view of the job's process. */
function liveOf({ pid }: Job, { activeRuns }: ViewContext["server"]): Node | undefined {
  const row = activeRuns.find((each) => !isBroken(each) && each.pid === pid);
  return row && h("a", { href: linkTo("live", { id: row.id }) }, "live");
}

function runsOf({ runs }: Job, { rows }: ViewContext["server"]): Node | string {
  if (runs.length === 0) return "–";
  if (runs.length === 1) {
    const row = rows.find(({ id }) => id === runs[0]);
    const link = h("a", { href: linkTo("run", { id: runs[0] }) }, "open");
    return row?.refused === undefined ? link : h("span", {}, link, refusedBadge(row));
  }
  return h("a", { href: linkTo("compare", { runs: idList(runs) }) }, `compare ${runs.length}`);
}

function cancelOf({ id, state }: Job): Node | string {
  if (state !== "running" && state !== "waiting") return "";
  const click = async () => {
    try {
      const response = await request(`api/jobs/${id}`, { method: "DELETE" });
      announce(response.ok ? `Cancelling job ${id}` : await errorText(response));
    } catch (error) {
      announce((error as Error).message);
    }
  };
  return h("button", { type: "button", "aria-label": `Cancel job ${id}`, click }, "Cancel");
}
