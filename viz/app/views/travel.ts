import type { DifferenceData, MomentData, RunDetail } from "../../api.ts";
import { hasClock, MomentView, timeText } from "../charts/moment.ts";
import { type NamedLog, Scrubber } from "../charts/scrubber.ts";
import { type Colouring, colourings } from "../charts/shades.ts";
import { announce, h, segments, select } from "../controls/dom.ts";
import { integer } from "../controls/format.ts";
import { labelsOf, reportFacts } from "../controls/labels.ts";
import { Newest } from "../newest.ts";
import type { Page } from "../page.ts";
import { linkTo, remember } from "../route.ts";
import { getDifference, getLog, getMoment, getRun } from "../server.ts";

/** A run whose log we are in. */
interface Traveller extends NamedLog {
  readonly id: string;
  readonly detail: RunDetail;
}

/** Steps through the event log of a run, or of two at the same event. */
export async function travelView(page: Page): Promise<void> {
  const { root, params, left } = page;
  const ids = [params.get("id") ?? "", params.get("with") ?? ""].filter(Boolean);
  const title = h("h1", {}, ids.length > 1 ? "Events of two runs" : `Events of ${ids[0] ?? "no run"}`);
  const waiting = h("p", { class: "hint", role: "status" }, "Reading the log…");
  root.append(title, waiting);
  try {
    const details = await Promise.all(ids.map((id) => getRun(id, left)));
    const logs = await Promise.all(ids.map((id) => getLog(id, left)));
    if (left.aborted) return;
    const rows = details.map(({ row }) => row);
    const labels = labelsOf(rows, new Map(details.map(({ row, report }) => [row.id, reportFacts(report)])));
    const names = rows.map(({ id }) => labels.get(id) ?? id);
    const isTold = names[0] !== names[1];
    const runs = ids.map((id, i) => ({
      ...{ id, detail: details[i], log: logs[i] },
      name: ids.length === 1 ? "" : isTold ? names[i] : id,
    }));
    waiting.remove();
    new Travel(page, runs).start();
  } catch (error) {
    if (left.aborted) return;
    waiting.remove();
    root.append(
      h("p", { class: "problem", role: "alert" }, `There is nothing to step through: ${(error as Error).message}`),
      h("p", {}, "Runs that are saved with --events have a log of all their events. ", ...linksTo(ids)),
    );
  }
}

const linksTo = (ids: readonly string[]) =>
  ids.flatMap((id) => [h("a", { href: linkTo("run", { id }) }, `The run ${id}`), " "]);

const jumps = [
  { kind: "step", label: "step" },
  { kind: "evict", label: "eviction" },
  { kind: "admit", label: "admission" },
  { kind: "preempt", label: "preemption" },
];

const speeds = [1, 10, 100, 1000, 10_000, 100_000];

/** The address is written at most so often: browsers refuse more. */
const rememberMs = 300;

class Travel {
  readonly #page: Page;
  readonly #runs: readonly Traveller[];
  readonly #events: number;
  readonly #moments: Newest<number, MomentData[]>;
  readonly #views: readonly MomentView[];
  readonly #scrubber: Scrubber;
  readonly #play = h("button", { type: "button", class: "main play", click: () => this.#setPlaying(!this.#isPlaying) });
  readonly #number = h("input", {
    type: "number",
    min: 0,
    step: 1,
    change: () => this.#goByHand(Number(this.#number.value)),
  });
  readonly #problem = h("p", { class: "problem", role: "alert", hidden: true });
  #colouring: Colouring;
  #event: number;
  #isPlaying = false;
  #speed: number;
  /** What a screen reader is told when the answer comes. */
  #isKeyed = false;
  #isJumping = false;
  #remembering: ReturnType<typeof setTimeout> | undefined;

  constructor(page: Page, runs: readonly Traveller[]) {
    const { params, left } = page;
    this.#page = page;
    this.#runs = runs;
    this.#events = Math.max(...runs.map(({ log }) => log.events));
    this.#event = this.#clamped(Number(params.get("event") ?? 0));
    this.#colouring = colourings.find(({ value }) => value === params.get("colour"))?.value ?? "age";
    this.#speed = speeds.find((speed) => String(speed) === params.get("speed")) ?? 100;
    const go = (event: number) => this.#goByHand(event);
    this.#scrubber = new Scrubber(runs, go, left);
    this.#views = runs.map(({ detail, log, name }) => new MomentView(detail.row, log, name, go, left));
    this.#moments = new Newest(
      (event) => Promise.all(runs.map(({ id, log }) => getMoment(id, { event: Math.min(event, log.events) }, left))),
      (moments) => this.#show(moments),
      (error) => this.#say(error),
      left,
    );
    left.addEventListener("abort", () => clearTimeout(this.#remembering));
  }

  start(): void {
    const { root, left } = this.#page;
    const { row } = this.#runs[0].detail;
    const isPair = this.#runs.length > 1;
    root.append(
      h(
        "p",
        { class: "lead" },
        `${row.trace} · ${integer(row.requests)} requests · `,
        ...this.#runs.flatMap(({ id, name }) => [
          h("a", { href: linkTo("run", { id }) }, name === "" ? "the run" : name),
          " ",
        ]),
      ),
      ...(isPair ? [this.#partingCard()] : []),
      this.#scrubber.element,
      this.#controls(),
      this.#problem,
      h("div", { class: isPair ? "two moments" : "moments" }, ...this.#views.map(({ element }) => element)),
    );
    document.addEventListener("keydown", (event) => this.#key(event), { signal: left });
    this.#setPlaying(false);
    this.go(this.#event);
  }

  /** To the moment before that event, wherever it came from. */
  go(event: number): void {
    this.#event = this.#clamped(event);
    this.#place();
    this.#moments.ask(this.#event);
    this.#remembering ??= setTimeout(() => {
      this.#remembering = undefined;
      remember({ event: this.#event });
    }, rememberMs);
  }

  #clamped = (event: number) => (Number.isFinite(event) ? Math.max(0, Math.min(this.#events, Math.round(event))) : 0);

  #goByHand(event: number): void {
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
      this.#views[i].show(moment, this.#colouring);
    });
    if (!this.#isKeyed) return;
    this.#isKeyed = false;
    announce(
      `Event ${integer(moments[0].event)}. Next: ${moments.map(({ next }) => next[0]?.text ?? "the end").join("; ")}`,
    );
  }

  #say(error: Error): void {
    this.#setPlaying(false);
    this.#problem.textContent = error.message;
    this.#problem.hidden = false;
  }

  #controls(): HTMLElement {
    const button = (label: string, sign: string, click: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, click }, sign);
    const { kinds } = this.#runs[0].log;
    const pairs = jumps.map(({ kind, label }) => {
      const count = kinds[kind] ?? 0;
      const both = [
        button(`Previous ${label}`, "◂", () => this.#jump(kind, "previous")),
        button(`Next ${label}`, "▸", () => this.#jump(kind, "next")),
      ];
      for (const each of both) each.disabled = count === 0;
      const name = h("span", { title: `${integer(count)} in the log` }, label);
      return h("span", { class: "jump", role: "group", "aria-label": `To a ${label}` }, both[0], name, both[1]);
    });
    const setColouring = (value: string) => {
      this.#colouring = value as Colouring;
      remember({ colour: value });
      for (const view of this.#views) view.colour(this.#colouring);
    };
    const setSpeed = (value: string) => {
      this.#speed = Number(value);
      remember({ speed: value });
    };
    const speedNames = speeds.map((speed) => ({ value: String(speed), label: integer(speed) }));
    this.#number.max = String(this.#events);
    return h(
      "div",
      { class: "bar transport" },
      h(
        "div",
        { class: "jump", role: "group", "aria-label": "Play" },
        button("Beginning of the log", "|◂", () => this.#goByHand(0)),
        button("Previous event", "◂", () => this.#goByHand(this.#event - 1)),
        this.#play,
        button("Next event", "▸", () => this.#goByHand(this.#event + 1)),
        button("End of the log", "▸|", () => this.#goByHand(this.#events)),
      ),
      h("div", { class: "jumps" }, ...pairs),
      h("label", { class: "field" }, h("span", {}, "Event"), this.#number),
      select("Events/s", speedNames, String(this.#speed), setSpeed),
      h(
        "div",
        { class: "field" },
        h("span", {}, "Colour"),
        segments("Colour", colourings, this.#colouring, setColouring),
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
      if (!this.#isPlaying || this.#page.left.aborted) return;
      at = Math.min(this.#events, at + ((nowMs - (last ?? nowMs)) / 1000) * this.#speed);
      last = nowMs;
      if (Math.floor(at) !== this.#event) this.go(Math.floor(at));
      if (at >= this.#events) this.#setPlaying(false);
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** By the log of the first run, where there are two. One at a time: what is held down does not pile up. */
  async #jump(kind: string, way: "next" | "previous"): Promise<void> {
    if (this.#isJumping) return;
    this.#setPlaying(false);
    this.#isJumping = true;
    try {
      const from = way === "next" ? this.#event + 1 : this.#event;
      const { id } = this.#runs[0];
      const { event } = await getMoment(id, { from, [way]: kind, nodes: 1 }, this.#page.left);
      this.go(event);
    } catch (error) {
      if (!this.#page.left.aborted) this.#say(error as Error);
    } finally {
      this.#isJumping = false;
    }
  }

  /** Arrows are for all of the view, but for what takes them itself; what scrolls a page elsewhere does so here, too. */
  #key(event: KeyboardEvent): void {
    const { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || !(target instanceof Element))
      return;
    if (target.closest("input, select, textarea, .scroll")) return;
    const act = this.#actOf(event);
    if (!act || (event.key === " " && target.closest("button, a"))) return;
    if (!event.key.startsWith("Arrow") && !target.closest(".slider, .transport, .drawn")) return;
    event.preventDefault();
    this.#isKeyed = true;
    act();
  }

  #actOf({ key, shiftKey }: KeyboardEvent): (() => void) | undefined {
    const page = Math.max(1, Math.round(this.#events / 100));
    const by = (count: number) => () => this.#goByHand(this.#event + count);
    const acts: Readonly<Record<string, () => void>> = {
      ArrowLeft: shiftKey ? () => this.#jump("step", "previous") : by(-1),
      ArrowRight: shiftKey ? () => this.#jump("step", "next") : by(1),
      PageUp: by(-page),
      PageDown: by(page),
      Home: () => this.#goByHand(0),
      End: () => this.#goByHand(this.#events),
      " ": () => this.#setPlaying(!this.#isPlaying),
    };
    return acts[key];
  }

  /** Where the two logs part. */
  #partingCard(): HTMLElement {
    const [a, b] = this.#runs;
    const words = h("p", { class: "note", role: "status" }, "Looking for the first difference…");
    const go = h("button", { type: "button", class: "main", hidden: true }, "Go to the first difference");
    const show = (found: DifferenceData) => {
      words.replaceChildren(...partingWords(found, a, b));
      go.hidden = found.identical;
      go.addEventListener("click", () => this.#goByHand(found.event));
    };
    getDifference(a.id, b.id, this.#page.left)
      .then(show)
      .catch((error) => {
        if (!this.#page.left.aborted) words.textContent = error.message;
      });
    return h(
      "section",
      { class: "card parting" },
      h("div", { class: "cardhead" }, h("h2", {}, "Where they part"), go),
      words,
    );
  }
}

function partingWords(found: DifferenceData, a: Traveller, b: Traveller): (Node | string)[] {
  const { event, identical, timesCompared } = found;
  const times = timesCompared ? "" : " Times are not compared.";
  if (identical) return [`They are identical: all ${integer(event)} events are the same.${times}`];
  const same =
    event === 0 ? "They differ from the first event on." : `The first ${integer(event)} events are the same.`;
  const said = [a, b].map(({ name, log }, i) => {
    const next = i === 0 ? found.a : found.b;
    const when = next && hasClock(log) ? ` at ${timeText(next.timeNs)}` : "";
    return h("li", {}, h("strong", {}, `${name}: `), next ? `${next.text}${when}` : "the log ends here");
  });
  return [same + times, h("ul", {}, ...said)];
}
