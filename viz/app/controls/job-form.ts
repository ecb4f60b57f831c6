import type { Choices, Job, JobCommand, JobRequest } from "../../api.ts";
import type { Page } from "../page.ts";
import { remember } from "../route.ts";
import { problemOf } from "../server.ts";
import { type Choice, h } from "./dom.ts";

type Target = JobRequest["target"];
type Name = Exclude<keyof JobRequest, "target">;

/** What the form asks for; what of it a target does not take is not shown. */
interface Field {
  /** In the address and in the page. */
  readonly name: string;
  /** In the request, if it is called otherwise there. */
  readonly as?: Name;
  readonly label: string;
  readonly hint?: (target: Target) => string;
  readonly targets?: readonly Target[];
  /** `one` and `several` are of the choices; `numbers` and `words` are lists as one writes them. */
  readonly kind: "one" | "several" | "number" | "numbers" | "words" | "tick";
  readonly choices?: readonly Choice[];
  /** Behind a heading that opens it. */
  readonly folded?: boolean;
  /** Whether it has a meaning beside what else is wanted. */
  isApt?(wanted: Wanted): boolean;
}

/** What was chosen, as the address has it. */
type Wanted = Readonly<Record<string, string>>;

const settleMs = 200;

/** A form for a replay or a comparison, which shows the command line of what is chosen. The address keeps that. */
export function jobForm(choices: Choices, { params, left }: Page): HTMLElement {
  const fields = fieldsOf(choices);
  const wanted: Record<string, string> = { target: targetIn(params.get("target")) };
  for (const field of fields) wanted[field.name] = valueIn(field, params.get(field.name) ?? "");
  const places = fields.map((field) => placeOf(field, wanted[field.name], (value) => change(field.name, value)));
  const command = h("code");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const main = h("button", { type: "submit", class: "main" }, "Start");
  const started = h("span", { class: "hint", role: "status" });
  let asked = new AbortController();
  let timer = 0;

  const isShown = ({ targets, isApt }: Field) =>
    (targets?.includes(wanted["target"] as Target) ?? true) && (isApt?.(wanted) ?? true);
  const arrange = () => {
    for (const { field, element, hint } of places) {
      element.hidden = !isShown(field);
      hint.textContent = field.hint?.(wanted["target"] as Target) ?? "";
    }
  };
  const request = () => requestOf(fields.filter(isShown), wanted);
  const preview = async () => {
    asked.abort();
    asked = new AbortController();
    try {
      const response = await post("api/command", request(), AbortSignal.any([left, asked.signal]));
      const refused = response.ok ? "" : await problemOf(response);
      show(refused);
      if (refused === "") command.textContent = ((await response.json()) as JobCommand).command;
    } catch (error) {
      if ((error as Error).name !== "AbortError") show((error as Error).message);
    }
  };
  const change = (name: string, value: string) => {
    wanted[name] = value;
    remember({ [name]: value });
    arrange();
    clearTimeout(timer);
    timer = window.setTimeout(preview, settleMs);
  };
  /** Beside the field that it begins with, or below all. */
  const show = (text: string): HTMLElement | undefined => {
    const [, name, what] = /^(\w+): (.*)$/s.exec(text) ?? [];
    const wrong = places.find(({ field, element }) => (field.as ?? field.name) === name && !element.hidden);
    for (const place of places) place.complain(place === wrong ? what : "");
    problem.textContent = wrong ? "" : text;
    problem.hidden = text === "" || wrong !== undefined;
    if (text !== "") command.textContent = "–";
    return wrong?.control;
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    clearTimeout(timer);
    started.textContent = "";
    try {
      const response = await post("api/jobs", request(), left);
      const refused = response.ok ? "" : await problemOf(response);
      const control = show(refused);
      control?.focus();
      if (refused !== "") return;
      const job = (await response.json()) as Job;
      command.textContent = job.command;
      started.textContent = `Job ${job.id} is ${job.state}, see below.`;
    } catch (error) {
      if (!left.aborted) show((error as Error).message);
    }
  };
  const of = (...names: string[]) =>
    places.filter(({ field }) => names.includes(field.name)).map((each) => each.element);
  const target = placeOf(targetField, wanted["target"], (value) => change("target", value));
  const [trace] = of("trace");
  arrange();
  void preview();
  return h(
    "form",
    { class: "card", submit, autocomplete: "off" },
    h("div", { class: "bar" }, trace, target.element),
    h("div", { class: "bar" }, ...of("model", "engine", "gpu", "rates", "replicas")),
    ...of("presets", "evictions", "indexes", "allocators", "schedulers", "routers"),
    h("div", { class: "bar" }, ...of("blocks", "limit", "warmup", "seed")),
    ...of("events"),
    h("h3", {}, "This will run"),
    h("pre", { class: "command", "aria-label": "Command line" }, command),
    h("div", { class: "actions" }, main, started),
    problem,
  );
}

const targets: readonly Choice[] = [
  { value: "cache", label: "cache: hits, no clock" },
  { value: "sim", label: "sim: a cluster in virtual time" },
  { value: "cpu", label: "cpu: a real engine" },
];
const targetField: Field = { name: "target", label: "Target", kind: "one", choices: targets };
const targetIn = (text: string | null) => (targets.some(({ value }) => value === text) ? text! : "cache");

const inTime: readonly Target[] = ["sim", "cpu"];
const plain = (names: readonly string[]): Choice[] => names.map((value) => ({ value, label: value }));
const orDefault = (names: readonly string[], usual: string): Choice[] => [
  { value: "", label: `${usual} (default)` },
  ...plain(names.filter((name) => name !== usual)),
];

function fieldsOf(choices: Choices): Field[] {
  const { defaults } = choices;
  const several = (name: string, label: string, names: readonly string[], hint: string, more: Partial<Field> = {}) => ({
    ...{ name, label, kind: "several" as const, choices: plain(names), hint: () => hint },
    ...more,
  });
  return [
    { name: "trace", label: "Trace", kind: "one", choices: plain(choices.traces) },
    {
      name: "model",
      label: "Model",
      kind: "one",
      targets: ["sim"],
      choices: orDefault(choices.models, defaults.model),
    },
    {
      ...{ name: "engine", as: "model", label: "Model", kind: "one", targets: ["cpu"] },
      choices: orDefault(choices.engineModels, defaults.engineModel),
    },
    {
      name: "gpu",
      label: "Hardware",
      kind: "one",
      targets: ["sim"],
      choices: orDefault(choices.hardware, defaults.gpu),
    },
    {
      ...{ name: "rates", label: "Requests a second", kind: "numbers", targets: inTime },
      hint: () => "one or several; none: as in the trace",
    },
    {
      ...{ name: "replicas", label: "Replicas", kind: "numbers", targets: ["sim"] },
      hint: () => "engines with a cache each; none: 1",
    },
    several("presets", "Real systems", choices.presets, "none: the parts below alone"),
    several("evictions", "Eviction policies", choices.evictions, "none: the system’s, or LRU; several compare"),
    several("indexes", "Indexes", choices.indexes, "none: the system’s, or hash-table", { folded: true }),
    several("allocators", "Allocators", choices.allocators, "none: the system’s, or block", { folded: true }),
    several("schedulers", "Schedulers", choices.schedulers, "none: the system’s, or the usual one", { folded: true }),
    several("routers", "Routers", choices.routers, `none: ${defaults.router}`, {
      targets: ["sim"],
      folded: true,
      isApt: ({ replicas }) => numbersIn(replicas).some((count) => Number(count) > 1),
    }),
    {
      ...{ name: "blocks", label: "Blocks of the cache", kind: "words" },
      hint: (target) =>
        `numbers or shares: 1000, 10%; none: ${target === "sim" ? "what fits beside the model" : target === "cpu" ? "10%" : "10%, or five sizes compared"}`,
    },
    {
      name: "limit",
      label: "First requests only",
      kind: "number",
      hint: (target) => (target === "cpu" ? "none: all, which takes minutes" : "none: all of the trace"),
    },
    { name: "warmup", label: "Warm-up", kind: "number", hint: () => "requests left out of the figures" },
    { name: "seed", label: "Seed", kind: "number", hint: () => "for policies that draw lots; none: 1" },
    { name: "events", label: "Keep the log of every decision, to step through the run", kind: "tick" },
  ];
}

const numbersIn = (text = "") => text.split(/[\s,;]+/).filter(Boolean);

/** What is no longer there to choose is not chosen. */
function valueIn({ kind, choices = [] }: Field, text: string): string {
  const has = (name: string) => choices.some(({ value }) => value === name);
  if (kind === "one") return has(text) ? text : (choices[0]?.value ?? "");
  if (kind === "several") return text.split(",").filter(has).join(",");
  return text;
}

/** Numbers that are none go as they are: the server says what it expects. */
const numberOf = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : text);

function requestOf(fields: readonly Field[], wanted: Wanted): Record<string, unknown> {
  const request: Record<string, unknown> = { target: wanted["target"] };
  for (const { name, as, kind } of fields) {
    const text = (wanted[name] ?? "").trim();
    if (text === "") continue;
    if (kind === "tick") request[as ?? name] = text === "yes";
    else if (kind === "several") request[as ?? name] = text.split(",");
    else if (kind === "words") request[as ?? name] = numbersIn(text);
    else if (kind === "numbers") request[as ?? name] = numbersIn(text).map(numberOf);
    else request[as ?? name] = kind === "number" ? numberOf(text) : text;
  }
  return request;
}

const post = (path: string, body: unknown, signal: AbortSignal) =>
  fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

/** A field in the page. */
interface Place {
  readonly field: Field;
  readonly element: HTMLElement;
  readonly hint: HTMLElement;
  /** What takes the focus. */
  readonly control: HTMLElement;
  /** Says what is wrong with it; nothing if that is "". */
  complain(text: string): void;
}

function placeOf(field: Field, value: string, change: (value: string) => void): Place {
  const { name, label, kind, choices = [] } = field;
  const hint = h("span", { class: "hint", id: `hint-${name}` });
  const wrong = h("span", { class: "wrong", id: `wrong-${name}`, role: "alert" });
  const about = { id: `field-${name}`, "aria-describedby": `hint-${name} wrong-${name}` };
  const made = kind === "several" ? ticksOf(field, value, about, change) : undefined;
  const control = made?.control ?? single();
  const element = made?.element ?? h("div", { class: kind === "tick" ? "ticked" : "field" }, ...labelled());
  (made?.head ?? element).append(hint);
  element.append(wrong);
  return {
    ...{ field, element, hint, control },
    complain(text) {
      wrong.textContent = text;
      control.toggleAttribute("data-wrong", text !== "");
      if (kind !== "several") control.setAttribute("aria-invalid", String(text !== ""));
    },
  };

  function single(): HTMLElement {
    const input = (event: Event) => change((event.target as HTMLInputElement).value);
    if (kind === "one") {
      const options = choices.map((each) =>
        h("option", { value: each.value, selected: each.value === value }, each.label),
      );
      return h("select", { ...about, change: input }, ...options);
    }
    if (kind !== "tick") return h("input", { ...about, value, inputmode: kind === "number" && "numeric", input });
    const tick = (event: Event) => change((event.target as HTMLInputElement).checked ? "yes" : "");
    return h("input", { ...about, type: "checkbox", checked: value === "yes", change: tick });
  }

  function labelled(): Node[] {
    const named = h("label", { for: `field-${name}` }, label);
    return kind === "tick" ? [control, named] : [named, control];
  }
}

/** Boxes to tick; folded away where few people need them, but for those that were chosen. */
function ticksOf(
  { name, label, choices = [], folded }: Field,
  value: string,
  about: Readonly<Record<string, string>>,
  change: (value: string) => void,
): { element: HTMLElement; control: HTMLElement; head?: HTMLElement } {
  const chosen = new Set(value.split(",").filter(Boolean));
  const picked = h("span", { class: "picked" });
  const say = () => {
    picked.textContent = [...chosen].join(", ");
  };
  const boxes = choices.map(({ value: each, label: text }) => {
    const tick = (event: Event) => {
      if ((event.target as HTMLInputElement).checked) chosen.add(each);
      else chosen.delete(each);
      say();
      change(choices.flatMap((choice) => (chosen.has(choice.value) ? [choice.value] : [])).join(","));
    };
    const box = h("input", { type: "checkbox", name, value: each, checked: chosen.has(each), change: tick });
    return h("label", { class: "tick" }, box, ` ${text}`);
  });
  say();
  if (!folded) {
    const control = h("fieldset", { ...about, tabindex: -1 }, h("legend", {}, label), ...boxes);
    return { element: h("div", { class: "several" }, control), control };
  }
  const control = h("summary", { ...about }, `${label} `, picked);
  const group = h("div", { class: "ticks", role: "group", "aria-label": label }, ...boxes);
  return { element: h("div", { class: "several" }, h("details", {}, control, group)), control, head: control };
}
