import type { Choices, Job, JobRequest } from "../api.ts";
import { announce, h, select } from "./dom.ts";
import type { Page } from "./page.ts";
import { linkTo } from "./route.ts";
import { get, problemOf } from "./server.ts";
import { Table } from "./table.ts";

/** Starts replays and comparisons, and shows how far they are. */
export async function startView({ root, live, left }: Page): Promise<void> {
  root.append(h("h1", {}, "Start"));
  try {
    const choices = await get<Choices>("api/choices", left);
    if (left.aborted) return;
    const jobs = new Table<Job>({ title: "Jobs", columns: jobColumns });
    root.append(
      form(choices),
      h("section", { class: "card" }, h("div", { class: "cardhead" }, h("h2", {}, "Jobs")), jobs.element),
    );
    const draw = () => jobs.show(live.jobs);
    live.jobs = await get<Job[]>("api/jobs", left);
    draw();
    live.watch(draw, left);
  } catch (error) {
    if (!left.aborted) root.append(h("p", { class: "problem", role: "alert" }, (error as Error).message));
  }
}

const jobColumns = [
  { name: "id", label: "Job", value: ({ id }: Job) => id },
  { name: "state", label: "State", value: ({ state }: Job) => state },
  { name: "progress", label: "Progress", value: ({ progress }: Job) => progress, show: progressOf },
  {
    name: "said",
    label: "Says",
    value: ({ said }: Job) => said,
    show: ({ said }: Job) => h("span", { class: "id" }, said),
  },
  { name: "runs", label: "Runs", value: ({ runs }: Job) => runs.length, show: runsOf },
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

const any = { value: "", label: "default" };
const options = (names: readonly string[]) => names.map((value) => ({ value, label: value }));

function form({ traces, presets, indexes, evictions, schedulers }: Choices): HTMLElement {
  const wanted: Record<string, string> = { trace: traces[0] ?? "", target: "cache" };
  const set = (name: string) => (value: string) => {
    wanted[name] = value;
  };
  const text = (name: string, label: string, placeholder: string, list?: string) =>
    h(
      "label",
      { class: "field" },
      h("span", {}, label),
      h("input", { placeholder, list, input: (event: Event) => set(name)((event.target as HTMLInputElement).value) }),
    );
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const policies = evictions.map((name) =>
    h("label", { class: "tick" }, h("input", { type: "checkbox", name: "eviction", value: name }), ` ${name}`),
  );
  const submit = async (event: Event) => {
    event.preventDefault();
    const ticked = [...box.querySelectorAll<HTMLInputElement>("input[name=eviction]:checked")].map(
      ({ value }) => value,
    );
    const response = await fetch("api/jobs", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(requestOf(wanted, ticked)),
    });
    problem.hidden = response.ok;
    if (response.ok) announce("Started");
    else problem.textContent = await problemOf(response);
  };
  const targets = ["cache", "sim"].map((value) => ({
    value,
    label: value === "cache" ? "cache: hits, no clock" : "sim: a GPU in virtual time",
  }));
  const box = h(
    "form",
    { class: "card", submit },
    h(
      "div",
      { class: "bar" },
      select("Trace", options(traces), wanted["trace"], set("trace")),
      select("Target", targets, "cache", set("target")),
      select("Real system", [any, ...options(presets)], "", set("preset")),
      select("Index", [any, ...options(indexes)], "", set("index")),
      select("Scheduler", [any, ...options(schedulers)], "", set("scheduler")),
      text("blocks", "Blocks: numbers or shares", "1%,5%,10%,25%"),
      text("limit", "First requests only", "all"),
    ),
    h("fieldset", {}, h("legend", {}, "Eviction policies; several, or several sizes, make a comparison"), ...policies),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "main" }, "Start")),
    problem,
  );
  return box;
}

function requestOf(wanted: Readonly<Record<string, string>>, evictions: readonly string[]): JobRequest {
  const { trace, target, preset, index, scheduler, blocks, limit } = wanted;
  const sizes = (blocks ?? "").split(/[\s,]+/).filter(Boolean);
  return {
    trace,
    target: target as JobRequest["target"],
    ...(preset && { preset }),
    ...(index && { index }),
    ...(scheduler && { scheduler }),
    ...(evictions.length > 0 && { evictions }),
    ...(sizes.length > 0 && { blocks: sizes }),
    ...(limit && { limit: Number(limit) }),
  };
}
