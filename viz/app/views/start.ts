import type { Choices, Job } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { jobForm } from "../controls/job-form.ts";
import { type Column, Table } from "../controls/table.ts";
import type { Page } from "../page.ts";
import { linkTo } from "../route.ts";
import { get, isBroken, problemOf } from "../server.ts";

/** Starts replays and comparisons, and shows how far they are. */
export async function startView(page: Page): Promise<void> {
  const { root, live, left } = page;
  root.append(h("h1", {}, "Start"));
  try {
    const choices = await get<Choices>("api/choices", left);
    if (left.aborted) return;
    const jobs = new Table<Job>({ title: "Jobs", columns: jobColumns(page), key: ({ id }) => id });
    const none = h("p", { class: "hint" }, "Nothing was started yet.");
    root.append(
      jobForm(choices, page),
      h("section", { class: "card" }, h("div", { class: "cardhead" }, h("h2", {}, "Jobs")), none, jobs.element),
    );
    const draw = () => {
      none.hidden = live.jobs.length > 0;
      jobs.element.hidden = live.jobs.length === 0;
      jobs.show(live.jobs);
    };
    draw();
    live.watch(draw, left);
    live.watchUnderWay(draw, left);
  } catch (error) {
    if (!left.aborted) root.append(h("p", { class: "problem", role: "alert" }, (error as Error).message));
  }
}

const jobColumns = ({ live }: Page): Column<Job>[] => [
  { name: "id", label: "Job", value: ({ id }: Job) => id },
  { name: "state", label: "State", value: ({ state }: Job) => state },
  { name: "progress", label: "Progress", value: ({ progress }: Job) => progress, show: progressOf },
  {
    name: "said",
    label: "Says",
    value: ({ said }: Job) => said,
    show: ({ said }: Job) => h("span", { class: "id" }, said),
  },
  {
    name: "runs",
    label: "Runs",
    value: ({ runs }: Job) => runs.length,
    show: (job: Job) => liveOf(job, live) ?? runsOf(job),
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

/** A link to where it is seen while it runs. */
function liveOf({ pid }: Job, { underWay }: Page["live"]): Node | undefined {
  const row = underWay.find((each) => !isBroken(each) && each.pid === pid);
  return row && h("a", { href: linkTo("live", { id: row.id }) }, "live");
}

function runsOf({ runs }: Job): Node | string {
  if (runs.length === 0) return "–";
  if (runs.length === 1) return h("a", { href: linkTo("run", { id: runs[0] }) }, "open");
  return h("a", { href: linkTo("compare", { runs: runs.join(",") }) }, `compare ${runs.length}`);
}

function cancelOf({ id, state }: Job): Node | string {
  if (state !== "running" && state !== "waiting") return "";
  const click = async () => {
    const response = await fetch(`api/jobs/${id}`, { method: "DELETE" });
    announce(response.ok ? `Job ${id} is being cancelled` : await problemOf(response));
  };
  return h("button", { type: "button", "aria-label": `Cancel job ${id}`, click }, "Cancel");
}
