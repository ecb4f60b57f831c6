import { h, segments } from "./controls/dom.ts";
import type { Page } from "./page.ts";
import { linkTo, readRoute } from "./route.ts";
import { Live } from "./server.ts";
import { compareView } from "./views/compare.ts";
import { liveView } from "./views/live.ts";
import { runView } from "./views/run.ts";
import { runsView } from "./views/runs.ts";
import { startView } from "./views/start.ts";
import { travelView } from "./views/travel.ts";

const views: Readonly<Record<string, { readonly title: string; show(page: Page): void }>> = {
  runs: { title: "Runs", show: runsView },
  compare: { title: "Compare", show: compareView },
  run: { title: "Run", show: runView },
  live: { title: "Live", show: liveView },
  travel: { title: "Events", show: travelView },
  start: { title: "Start", show: startView },
};
const inMenu = ["runs", "compare", "start"];

const live = new Live();
const root = h("main", { id: "main", tabindex: -1 });
const menu = h("nav", { "aria-label": "Views" });
let leaving = new AbortController();

function show(): void {
  leaving.abort();
  leaving = new AbortController();
  const { view, params } = readRoute();
  const name = view in views ? view : "runs";
  const { title } = views[name];
  document.title = `${title} · kvlab`;
  menu.replaceChildren(
    ...inMenu.map((each) => h("a", { href: linkTo(each), "aria-current": each === name && "page" }, views[each].title)),
  );
  root.replaceChildren();
  views[name].show({ root, params, live, left: leaving.signal });
}

const themes = [
  { value: "", label: "Auto" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

function setTheme(theme: string): void {
  document.documentElement.dataset["theme"] = theme;
  localStorage.setItem("theme", theme);
}

async function begin(): Promise<void> {
  const theme = localStorage.getItem("theme") ?? "";
  document.documentElement.dataset["theme"] = theme;
  document.body.append(
    h("a", { class: "skip", href: "#main", click: skip }, "Skip to the content"),
    h(
      "header",
      {},
      h(
        "a",
        { class: "brand", href: linkTo("runs") },
        h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
        "kvlab",
      ),
      menu,
      segments("Colours", themes, theme, setTheme),
    ),
    root,
    h("div", { id: "said", class: "unseen", role: "status", "aria-live": "polite" }),
  );
  try {
    await live.start();
  } catch (error) {
    root.replaceChildren(h("p", { class: "problem", role: "alert" }, `The server does not answer: ${String(error)}`));
    return;
  }
  addEventListener("hashchange", show);
  show();
}

function skip(event: Event): void {
  event.preventDefault();
  root.focus();
}

void begin();
