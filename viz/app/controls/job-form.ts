import type { Choices, Job, JobCommand, JobRequest } from "../../api.ts";
import { errorText, request as send } from "../data/server.ts";
import { updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { type Choice, h } from "./dom.ts";

/** An engine target has the name of its backend. */
type TargetKind = "cache" | "sim" | "engine";
const kindOf = (target: string): TargetKind => (target === "cache" || target === "sim" ? target : "engine");

type Name = Exclude<keyof JobRequest, "target">;

/** A field of the form; hidden for targets that it does not apply to. */
interface Field {
  /** In the URL and in element ids. */
  readonly name: string;
  /** Name in the request, if it differs. */
  readonly requestName?: Name;
  readonly label: string;
  readonly hint?: (target: TargetKind) => string;
  readonly targets?: readonly TargetKind[];
  /** `one` and `many` select from `choices`; `numbers` and `texts` are lists separated by commas or spaces. */
  readonly kind: "one" | "many" | "number" | "numbers" | "texts" | "checkbox";
  readonly choices?: readonly Choice[];
  /** Collapsed until it is opened. */
  readonly collapsed?: boolean;
  /** Whether the field applies, given the other values. */
  applies?(values: FormValues): boolean;
}

/** The values by field name, as in the URL. */
type FormValues = Readonly<Record<string, string>>;

/** Delay of the preview after the last change. */
const previewDelayMs = 200;

/** A form for a replay or a comparison with a preview of its command line. The URL keeps its values. */
export function jobForm(choices: Choices, { params, signal }: ViewContext): HTMLElement {
  const fields = fieldsOf(choices);
  const targetField = targetFieldOf(choices);
  const values: Record<string, string> = { target: valueIn(targetField, params.get("target") ?? "") };
  for (const field of fields) values[field.name] = valueIn(field, params.get(field.name) ?? "");
  const elements = fields.map((field) => buildField(field, values[field.name], (value) => change(field.name, value)));
  const command = h("code");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const startButton = h("button", { type: "submit", class: "main" }, "Start");
  const started = h("span", { class: "hint", role: "status" });
  let previewing = new AbortController();
  let timer = 0;

  const isShown = ({ targets, applies }: Field) =>
    (targets?.includes(kindOf(values["target"])) ?? true) && (applies?.(values) ?? true);
  const updateVisibility = () => {
    for (const { field, element, hint } of elements) {
      element.hidden = !isShown(field);
      hint.textContent = field.hint?.(kindOf(values["target"])) ?? "";
    }
  };
  const request = () => requestOf(fields.filter(isShown), values);
  const preview = async () => {
    previewing.abort();
    previewing = new AbortController();
    try {
      const response = await post("api/command", request(), AbortSignal.any([signal, previewing.signal]));
      const problemText = response.ok ? "" : await errorText(response);
      showProblem(problemText);
      if (problemText === "") command.textContent = ((await response.json()) as JobCommand).command;
    } catch (error) {
      if ((error as Error).name !== "AbortError") showProblem((error as Error).message);
    }
  };
  const change = (name: string, value: string) => {
    values[name] = value;
    updateRoute({ [name]: value });
    updateVisibility();
    clearTimeout(timer);
    timer = window.setTimeout(preview, previewDelayMs);
  };
  /** Shows an error beside the field that its text starts with, or else below the form; returns the field's control. */
  const showProblem = (text: string): HTMLElement | undefined => {
    const [, name, message] = /^(\w+): (.*)$/s.exec(text) ?? [];
    const invalid = elements.find(
      ({ field, element }) => (field.requestName ?? field.name) === name && !element.hidden,
    );
    for (const each of elements) each.setError(each === invalid ? message : "");
    problem.textContent = invalid ? "" : text;
    problem.hidden = text === "" || invalid !== undefined;
    if (text !== "") command.textContent = "–";
    return invalid?.control;
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (startButton.disabled) return;
    clearTimeout(timer);
    started.textContent = "";
    startButton.disabled = true;
    try {
      const response = await post("api/jobs", request(), signal);
      const problemText = response.ok ? "" : await errorText(response);
      const control = showProblem(problemText);
      control?.focus();
      if (problemText !== "") return;
      const job = (await response.json()) as Job;
      command.textContent = job.command;
      started.textContent = `Job ${job.id}: ${job.state}. See Jobs below.`;
    } catch (error) {
      if (!signal.aborted) showProblem((error as Error).message);
    } finally {
      startButton.disabled = false;
    }
  };
  const elementsOf = (...names: string[]) =>
    elements.filter(({ field }) => names.includes(field.name)).map((each) => each.element);
  const target = buildField(targetField, values["target"], (value) => change("target", value));
  const [trace] = elementsOf("trace");
  updateVisibility();
  void preview();
  return h(
    "form",
    { class: "card", submit, autocomplete: "off" },
    h("div", { class: "bar" }, trace, target.element),
    h("div", { class: "bar" }, ...elementsOf("model", "engine", "gpu", "rates", "replicas")),
    ...elementsOf("presets", "evictions", "indexes", "allocators", "schedulers", "routers"),
    h("div", { class: "bar" }, ...elementsOf("blocks", "limit", "warmup", "seed")),
    ...elementsOf("events"),
    h("h2", {}, "Command"),
    h("pre", { class: "command", "aria-label": "Command line" }, command),
    h("div", { class: "actions" }, startButton, started),
    problem,
  );
}

function targetFieldOf({ engineTargets }: Choices): Field {
  const choices = [
    { value: "cache", label: "cache: cache replay, no clock" },
    { value: "sim", label: "sim: simulated replicas, virtual time" },
    ...engineTargets.map((value) => ({ value, label: `${value}: real engine, real time` })),
  ];
  return { name: "target", label: "Target", kind: "one", choices };
}

const choicesOf = (names: readonly string[]): Choice[] => names.map((value) => ({ value, label: value }));
const withDefault = (names: readonly string[], defaultName: string): Choice[] => [
  { value: "", label: `${defaultName} (default)` },
  ...choicesOf(names.filter((name) => name !== defaultName)),
];

function fieldsOf(choices: Choices): Field[] {
  const { defaults } = choices;
  const many = (name: string, label: string, names: readonly string[], hint: string, more: Partial<Field> = {}) => ({
    ...{ name, label, kind: "many" as const, choices: choicesOf(names), hint: () => hint },
    ...more,
  });
  return [
    { name: "trace", label: "Trace", kind: "one", choices: choicesOf(choices.traces) },
    {
      name: "model",
      label: "Model",
      kind: "one",
      targets: ["sim"],
      choices: withDefault(choices.models, defaults.model),
    },
    {
      ...{ name: "engine", requestName: "model", label: "Model", kind: "one", targets: ["engine"] },
      choices: withDefault(choices.engineModels, defaults.engineModel),
    },
    {
      name: "gpu",
      label: "Hardware",
      kind: "one",
      targets: ["sim"],
      choices: withDefault(choices.hardware, defaults.gpu),
    },
    {
      ...{ name: "rates", label: "Offered rate, req/s", kind: "numbers", targets: ["sim", "engine"] },
      hint: () => "one or more; empty: as in the trace",
    },
    {
      ...{ name: "replicas", label: "Replicas", kind: "numbers", targets: ["sim"] },
      hint: () => "model instances with a cache each; empty: 1",
    },
    many("presets", "Presets", choices.presets, "none: only the plug-ins below"),
    many("evictions", "Eviction policies", choices.evictions, "none: that of the preset, or lru; several are compared"),
    many("indexes", "Indexes", choices.indexes, "none: that of the preset, or hash-table", { collapsed: true }),
    many("allocators", "Allocators", choices.allocators, "none: that of the preset, or block", { collapsed: true }),
    many("schedulers", "Schedulers", choices.schedulers, "none: that of the preset, or the default", {
      collapsed: true,
    }),
    many("routers", "Routers", choices.routers, `none: ${defaults.router}`, {
      targets: ["sim"],
      collapsed: true,
      applies: ({ replicas }) => numbersIn(replicas).some((count) => Number(count) > 1),
    }),
    {
      ...{ name: "blocks", label: "Cache size, blocks", kind: "texts" },
      hint: (target) =>
        `numbers or percentages: 1000, 10%; empty: ${target === "sim" ? "the GPU memory that the model leaves" : target === "engine" ? "10%" : "10%, or five sizes compared"}`,
    },
    {
      name: "limit",
      label: "Limit, requests",
      kind: "number",
      hint: (target) => (target === "engine" ? "empty: all, which takes minutes" : "empty: the whole trace"),
    },
    { name: "warmup", label: "Warm-up", kind: "number", hint: () => "first requests, not in the metrics" },
    { name: "seed", label: "Seed", kind: "number", hint: () => "random seed; empty: 1" },
    { name: "events", label: "Save the event log, to step through the run", kind: "checkbox" },
  ];
}

const numbersIn = (text = "") => text.split(/[\s,;]+/).filter(Boolean);

/** Drops names that are no longer among the choices. */
function valueIn({ kind, choices = [] }: Field, text: string): string {
  const has = (name: string) => choices.some(({ value }) => value === name);
  if (kind === "one") return has(text) ? text : (choices[0]?.value ?? "");
  if (kind === "many") return text.split(",").filter(has).join(",");
  return text;
}

/** A text that is not a number is sent as it is; the server replies with what it expects. */
const numberOf = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : text);

function requestOf(fields: readonly Field[], values: FormValues): Record<string, unknown> {
  const request: Record<string, unknown> = { target: values["target"] };
  for (const { name, requestName, kind } of fields) {
    const text = (values[name] ?? "").trim();
    if (text === "") continue;
    if (kind === "checkbox") request[requestName ?? name] = text === "yes";
    else if (kind === "many") request[requestName ?? name] = text.split(",");
    else if (kind === "texts") request[requestName ?? name] = numbersIn(text);
    else if (kind === "numbers") request[requestName ?? name] = numbersIn(text).map(numberOf);
    else request[requestName ?? name] = kind === "number" ? numberOf(text) : text;
  }
  return request;
}

const post = (path: string, body: unknown, signal: AbortSignal) =>
  send(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

/** The elements of a field. */
interface FieldElement {
  readonly field: Field;
  readonly element: HTMLElement;
  readonly hint: HTMLElement;
  /** Receives the focus. */
  readonly control: HTMLElement;
  /** Shows an error beside the field; "" clears it. */
  setError(text: string): void;
}

function buildField(field: Field, value: string, change: (value: string) => void): FieldElement {
  const { name, label, kind, choices = [] } = field;
  const hint = h("span", { class: "hint", id: `hint-${name}` });
  const errorText = h("span", { class: "field-error", id: `error-${name}`, role: "alert" });
  const attributes = { id: `field-${name}`, "aria-describedby": `hint-${name} error-${name}` };
  const checkboxes = kind === "many" ? checkboxesOf(field, value, attributes, change) : undefined;
  const control = checkboxes?.control ?? single();
  const element =
    checkboxes?.element ?? h("div", { class: kind === "checkbox" ? "checkbox-field" : "field" }, ...labelled());
  (checkboxes?.head ?? element).append(hint);
  element.append(errorText);
  return {
    ...{ field, element, hint, control },
    setError(text) {
      errorText.textContent = text;
      control.toggleAttribute("data-invalid", text !== "");
      if (kind !== "many") control.setAttribute("aria-invalid", String(text !== ""));
    },
  };

  function single(): HTMLElement {
    const input = (event: Event) => change((event.target as HTMLInputElement).value);
    if (kind === "one") {
      const options = choices.map((each) =>
        h("option", { value: each.value, selected: each.value === value }, each.label),
      );
      return h("select", { ...attributes, change: input }, ...options);
    }
    if (kind !== "checkbox")
      return h("input", { ...attributes, value, inputmode: kind === "number" && "numeric", input });
    const toggle = (event: Event) => change((event.target as HTMLInputElement).checked ? "yes" : "");
    return h("input", { ...attributes, type: "checkbox", checked: value === "yes", change: toggle });
  }

  function labelled(): Node[] {
    const labelElement = h("label", { for: `field-${name}` }, label);
    return kind === "checkbox" ? [control, labelElement] : [labelElement, control];
  }
}

/** A group of checkboxes; a collapsed group shows the selected values. */
function checkboxesOf(
  { name, label, choices = [], collapsed }: Field,
  value: string,
  attributes: Readonly<Record<string, string>>,
  change: (value: string) => void,
): { element: HTMLElement; control: HTMLElement; head?: HTMLElement } {
  const selected = new Set(value.split(",").filter(Boolean));
  const summary = h("span", { class: "selected-values" });
  const updateSummary = () => {
    summary.textContent = [...selected].join(", ");
  };
  const boxes = choices.map(({ value: each, label: text }) => {
    const toggle = (event: Event) => {
      if ((event.target as HTMLInputElement).checked) selected.add(each);
      else selected.delete(each);
      updateSummary();
      change(choices.flatMap((choice) => (selected.has(choice.value) ? [choice.value] : [])).join(","));
    };
    const box = h("input", { type: "checkbox", name, value: each, checked: selected.has(each), change: toggle });
    return h("label", { class: "checkbox" }, box, ` ${text}`);
  });
  updateSummary();
  if (!collapsed) {
    const control = h("fieldset", { ...attributes, tabindex: -1 }, h("legend", {}, label), ...boxes);
    return { element: h("div", { class: "multiple" }, control), control };
  }
  const control = h("summary", { ...attributes }, `${label} `, summary);
  const group = h("div", { class: "checkboxes", role: "group", "aria-label": label }, ...boxes);
  return { element: h("div", { class: "multiple" }, h("details", {}, control, group)), control, head: control };
}
