import type { DifferenceData, MomentData, RunDetail } from "../../api.ts";
import { type ColourMode, colourModes } from "../charts/block-colours.ts";
import { type NamedLog, Scrubber } from "../charts/scrubber.ts";
import { announce, h, segments, select } from "../controls/dom.ts";
import { noRunNamed } from "../controls/no-run.ts";
import { integer } from "../data/format.ts";
import { LatestRequest } from "../data/latest-request.ts";
import { runLabels } from "../data/run-labels.ts";
import { getDifference, getLog, getMoment, getRun } from "../data/server.ts";
import { linkTo, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";
import { CacheStatePanel, hasClock, timeText } from "./cache-state-panel.ts";

/** A run with its event log. */
interface OpenRun extends NamedLog {
  readonly id: string;
  readonly detail: RunDetail;
}

/** The cache at any event of a run's event log, or of two logs at the same event. */
export const timeTravelView: View = { name: "travel", title: "Events", show: showTimeTravel };

async function showTimeTravel(context: ViewContext): Promise<void> {
  const { root, params, signal } = context;
  const ids = [params.get("id") ?? "", params.get("with") ?? ""].filter(Boolean);
  if (ids.length === 0) {
    root.append(...noRunNamed("Events"));
    return;
  }
  const title = h("h1", {}, ids.length > 1 ? "Events of two runs" : `Events of ${ids[0]}`);
  const loading = h("p", { class: "hint", role: "status" }, "Reading the log…");
  root.append(title, loading);
  try {
    const details = await Promise.all(ids.map((id) => getRun(id, signal)));
    const logs = await Promise.all(ids.map((id) => getLog(id, signal)));
    if (signal.aborted) return;
    const rows = details.map(({ row }) => row);
    const labels = runLabels(rows);
    const names = rows.map(({ id }) => labels.get(id) ?? id);
    const areNamesUnique = names[0] !== names[1];
    const runs = ids.map((id, i) => ({
      ...{ id, detail: details[i], log: logs[i] },
      name: ids.length === 1 ? "" : areNamesUnique ? names[i] : id,
    }));
    const event = params.has("event") ? Number(params.get("event")) : await firstOfInterest(ids, signal);
    if (signal.aborted) return;
    loading.remove();
    new TimeTravel(context, runs, event).start();
  } catch (error) {
    if (signal.aborted) return;
    loading.remove();
    root.append(
      h("p", { class: "problem", role: "alert" }, `The event log cannot be shown: ${(error as Error).message}`),
      h("p", {}, "Runs that are saved with --events have an event log. ", ...linksTo(ids)),
    );
  }
}

/** The first eviction of a run, or the first event that differs in two; 0 if there is none. */
async function firstOfInterest(ids: readonly string[], signal: AbortSignal): Promise<number> {
  if (ids.length > 1) {
    const { event, identical } = await getDifference(ids[0], ids[1], signal);
    return identical ? 0 : event;
  }
  const { event, next } = await getMoment(ids[0], { from: 0, next: "evict", nodes: 1 }, signal);
  return next[0]?.kind === "evict" ? event : 0;
}

const linksTo = (ids: readonly string[]) =>
  ids.flatMap((id) => [h("a", { href: linkTo("run", { id }) }, `Run ${id}`), " "]);

const jumps = [
  { kind: "step", label: "step" },
  { kind: "evict", label: "eviction" },
  { kind: "admit", label: "admission" },
  { kind: "preempt", label: "preemption" },
];

const speeds = [1, 10, 100, 1000, 10_000, 100_000];

/** Least interval between updates of the URL; browsers limit their rate. */
const routeUpdateMs = 300;

class TimeTravel {
  readonly #context: ViewContext;
  readonly #runs: readonly OpenRun[];
  readonly #events: number;
  readonly #states: LatestRequest<number, MomentData[]>;
  readonly #panels: readonly CacheStatePanel[];
  readonly #scrubber: Scrubber;
  readonly #play = h("button", { type: "button", class: "main play", click: () => this.#setPlaying(!this.#isPlaying) });
  readonly #number = h("input", {
    type: "number",
    min: 0,
    step: 1,
    change: () => this.#goManually(Number(this.#number.value)),
  });
  readonly #problem = h("p", { class: "problem", role: "alert", hidden: true });
  #colourMode: ColourMode;
  #event: number;
  #isPlaying = false;
  #speed: number;
  /** Whether the event was chosen by the keyboard, so that it is announced when it is shown. */
  #isKeyed = false;
  #isJumping = false;
  #routeUpdate: ReturnType<typeof setTimeout> | undefined;

  constructor(context: ViewContext, runs: readonly OpenRun[], event: number) {
    const { params, signal } = context;
    this.#context = context;
    this.#runs = runs;
    this.#events = Math.max(...runs.map(({ log }) => log.events));
    this.#event = this.#clamped(event);
    this.#colourMode = colourModes.find(({ value }) => value === params.get("colour"))?.value ?? "age";
    this.#speed = speeds.find((speed) => String(speed) === params.get("speed")) ?? 100;
    const go = (event: number) => this.#goManually(event);
    this.#scrubber = new Scrubber(runs, go, signal);
    this.#panels = runs.map(({ detail, log, name }) => new CacheStatePanel(detail.row, log, name, go, signal));
    this.#states = new LatestRequest(
      (event) => Promise.all(runs.map(({ id, log }) => getMoment(id, { event: Math.min(event, log.events) }, signal))),
      (moments) => this.#show(moments),
      (error) => this.#showError(error),
      signal,
    );
    signal.addEventListener("abort", () => clearTimeout(this.#routeUpdate));
  }

  start(): void {
    const { root, signal } = this.#context;
    const { row } = this.#runs[0].detail;
    const isPair = this.#runs.length > 1;
    root.append(
      h(
        "p",
        { class: "lead" },
        `${row.trace} · ${integer(row.requests)} requests · `,
        ...this.#runs.flatMap(({ id, name }) => [
          h("a", { href: linkTo("run", { id }) }, name === "" ? "run summary" : name),
          " ",
        ]),
      ),
      ...(isPair ? [this.#divergenceCard()] : []),
      this.#scrubber.element,
      this.#controls(),
      this.#problem,
      h("div", { class: isPair ? "two panels" : "panels" }, ...this.#panels.map(({ element }) => element)),
    );
    document.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.#setPlaying(false);
    this.go(this.#event);
  }

  /** Shows the state before event number `event`. */
  go(event: number): void {
    this.#event = this.#clamped(event);
    this.#place();
    this.#states.request(this.#event);
    this.#routeUpdate ??= setTimeout(() => {
      this.#routeUpdate = undefined;
      updateRoute({ event: this.#event });
    }, routeUpdateMs);
  }

  #clamped = (event: number) => (Number.isFinite(event) ? Math.max(0, Math.min(this.#events, Math.round(event))) : 0);

  #goManually(event: number): void {
    this.#setPlaying(false);
    this.go(event);
  }

  #place(): void {
    this.#scrubber.move(this.#event, `event ${integer(this.#event)} of ${integer(this.#events)}`);
    if (document.activeElement !== this.#number) this.#number.value = String(this.#event);
  }

  #show(moments: readonly MomentData[]): void {
    this.#problem.hidden = true;
    moments.forEach((moment, i) => {
      this.#panels[i].show(moment, this.#colourMode);
    });
    if (!this.#isKeyed) return;
    this.#isKeyed = false;
    announce(
      `Event ${integer(moments[0].event)}. Next: ${moments.map(({ next }) => next[0]?.text ?? "end of the log").join("; ")}`,
    );
  }

  #showError(error: Error): void {
    this.#setPlaying(false);
    this.#problem.textContent = error.message;
    this.#problem.hidden = false;
  }

  #controls(): HTMLElement {
    const button = (label: string, sign: string, click: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, click }, sign);
    const { kinds } = this.#runs[0].log;
    const jumpButtons = jumps.map(({ kind, label }) => {
      const count = kinds[kind] ?? 0;
      const buttons = [
        button(`Previous ${label}`, "◂", () => this.#jump(kind, "previous")),
        button(`Next ${label}`, "▸", () => this.#jump(kind, "next")),
      ];
      for (const each of buttons) each.disabled = count === 0;
      const name = h("span", { title: `${integer(count)} in the log` }, label);
      return h(
        "span",
        { class: "jump", role: "group", "aria-label": `Jump to ${label}` },
        buttons[0],
        name,
        buttons[1],
      );
    });
    const setColourMode = (value: string) => {
      this.#colourMode = value as ColourMode;
      updateRoute({ colour: value });
      for (const panel of this.#panels) panel.setColourMode(this.#colourMode);
    };
    const setSpeed = (value: string) => {
      this.#speed = Number(value);
      updateRoute({ speed: value });
    };
    const speedNames = speeds.map((speed) => ({ value: String(speed), label: integer(speed) }));
    this.#number.max = String(this.#events);
    return h(
      "div",
      { class: "bar transport" },
      h(
        "div",
        { class: "jump", role: "group", "aria-label": "Playback" },
        button("Start of the log", "|◂", () => this.#goManually(0)),
        button("Previous event", "◂", () => this.#goManually(this.#event - 1)),
        this.#play,
        button("Next event", "▸", () => this.#goManually(this.#event + 1)),
        button("End of the log", "▸|", () => this.#goManually(this.#events)),
      ),
      h("div", { class: "jumps" }, ...jumpButtons),
      h("label", { class: "field" }, h("span", {}, "Event"), this.#number),
      select("Events/s", speedNames, String(this.#speed), setSpeed),
      h(
        "div",
        { class: "field" },
        h("span", {}, "Colour by"),
        segments("Colour by", colourModes, this.#colourMode, setColourMode),
      ),
    );
  }

  #setPlaying(isPlaying: boolean): void {
    const wasPlaying = this.#isPlaying;
    this.#isPlaying = isPlaying;
    this.#play.textContent = isPlaying ? "Pause" : "Play";
    if (!isPlaying || wasPlaying) return;
    let at = this.#event === this.#events ? 0 : this.#event;
    let last: number | undefined;
    const frame = (nowMs: number) => {
      if (!this.#isPlaying || this.#context.signal.aborted) return;
      at = Math.min(this.#events, at + ((nowMs - (last ?? nowMs)) / 1000) * this.#speed);
      last = nowMs;
      if (Math.floor(at) !== this.#event) this.go(Math.floor(at));
      if (at >= this.#events) this.#setPlaying(false);
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** Finds the event in the log of the first run. Calls during a jump are ignored, so that key repeats do not queue up. */
  async #jump(kind: string, direction: "next" | "previous"): Promise<void> {
    if (this.#isJumping) return;
    this.#setPlaying(false);
    this.#isJumping = true;
    try {
      const from = direction === "next" ? this.#event + 1 : this.#event;
      const { id } = this.#runs[0];
      const { event } = await getMoment(id, { from, [direction]: kind, nodes: 1 }, this.#context.signal);
      this.go(event);
    } catch (error) {
      if (!this.#context.signal.aborted) this.#showError(error as Error);
    } finally {
      this.#isJumping = false;
    }
  }

  /**
   * Arrow keys work anywhere in the view except in controls that handle them. Keys that scroll a page do so here too, unless
   * the focus is on the scrubber, its buttons or a figure.
   */
  #key(event: KeyboardEvent): void {
    const { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || !(target instanceof Element))
      return;
    if (target.closest("input, select, textarea, .scroll")) return;
    const action = this.#actionOf(event);
    if (!action || (event.key === " " && target.closest("button, a"))) return;
    if (!event.key.startsWith("Arrow") && !target.closest(".slider, .transport, .canvas-figure")) return;
    event.preventDefault();
    this.#isKeyed = true;
    action();
  }

  #actionOf({ key, shiftKey }: KeyboardEvent): (() => void) | undefined {
    const page = Math.max(1, Math.round(this.#events / 100));
    const by = (count: number) => () => this.#goManually(this.#event + count);
    const actions: Readonly<Record<string, () => void>> = {
      ArrowLeft: shiftKey ? () => this.#jump("step", "previous") : by(-1),
      ArrowRight: shiftKey ? () => this.#jump("step", "next") : by(1),
      PageUp: by(-page),
      PageDown: by(page),
      Home: () => this.#goManually(0),
      End: () => this.#goManually(this.#events),
      " ": () => this.#setPlaying(!this.#isPlaying),
    };
    return actions[key];
  }

  /** The first event in which the two logs differ. */
  #divergenceCard(): HTMLElement {
    const [a, b] = this.#runs;
    const text = h("p", { class: "note", role: "status" }, "Finding the first divergence…");
    const go = h("button", { type: "button", class: "main", hidden: true }, "Go to the first divergence");
    const show = (found: DifferenceData) => {
      text.replaceChildren(...divergenceText(found, a, b));
      go.hidden = found.identical;
      go.addEventListener("click", () => this.#goManually(found.event));
    };
    getDifference(a.id, b.id, this.#context.signal)
      .then(show)
      .catch((error) => {
        if (!this.#context.signal.aborted) text.textContent = error.message;
      });
    return h(
      "section",
      { class: "card divergence" },
      h("div", { class: "cardhead" }, h("h2", {}, "First divergence"), go),
      text,
    );
  }
}

function divergenceText(found: DifferenceData, a: OpenRun, b: OpenRun): (Node | string)[] {
  const { event, identical, timesCompared } = found;
  const times = timesCompared ? "" : " Times are not compared.";
  if (identical) return [`The logs are identical: all ${integer(event)} events are equal.${times}`];
  const same =
    event === 0 ? "The logs diverge at the first event." : `The logs diverge after ${integer(event)} equal events.`;
  const items = [a, b].map(({ name, log }, i) => {
    const next = i === 0 ? found.a : found.b;
    const time = next && hasClock(log) ? ` at ${timeText(next.timeNs)}` : "";
    return h("li", {}, h("strong", {}, `${name}: `), next ? `${next.text}${time}` : "end of the log");
  });
  return [same + times, h("ul", {}, ...items)];
}
