import { h, segments } from "./controls/dom.ts";
import { ServerState } from "./data/server.ts";
import { linkTo, readRoute } from "./route.ts";
import type { View, ViewContext } from "./view.ts";
import * as registry from "./views/index.ts";

const views: readonly View[] = Object.values(registry);
const menuViews = views.filter(({ menuOrder }) => menuOrder !== undefined).sort((a, b) => a.menuOrder! - b.menuOrder!);

const server = new ServerState();
const root = h("main", { id: "main", tabindex: -1 });
const menu = h("nav", { "aria-label": "Views" });
let shown = new AbortController();

/** Shows the view of the URL's hash, or the first of the menu. */
function showRoute(): void {
  shown.abort();
  shown = new AbortController();
  const { name, params } = readRoute();
  const view = name === "" ? menuViews[0] : (views.find((each) => each.name === name) ?? unknownView);
  document.title = `${view.title} · kvlab`;
  menu.replaceChildren(
    ...menuViews.map((each) =>
      h("a", { href: linkTo(each.name), "aria-current": each === view && "page" }, each.title),
    ),
  );
  root.replaceChildren();
  void showIn(view, { root, params, server, signal: shown.signal });
}

/** Shows a view, or why it cannot be shown. */
async function showIn(view: View, context: ViewContext): Promise<void> {
  try {
    await view.show(context);
  } catch (error) {
    if (context.signal.aborted) return;
    context.root.append(h("p", { class: "problem", role: "alert" }, (error as Error).message));
  }
}

/** For an address that names no view. */
const unknownView: View = {
  name: "unknown",
  title: "No such page",
  show: ({ root }) => {
    const text = `The address names no page: ${JSON.stringify(readRoute().name.slice(0, 100))}.`;
    root.append(
      h("h1", {}, "No such page"),
      h("p", { class: "problem", role: "alert" }, text),
      h("p", {}, h("a", { href: linkTo(menuViews[0].name) }, menuViews[0].title)),
    );
  },
};

const themes = [
  { value: "", label: "Auto" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

function setTheme(theme: string): void {
  document.documentElement.dataset["theme"] = theme;
  localStorage.setItem("theme", theme);
}

async function start(): Promise<void> {
  const theme = localStorage.getItem("theme") ?? "";
  document.documentElement.dataset["theme"] = theme;
  document.body.append(
    h("a", { class: "skip", href: "#main", click: focusMain }, "Skip to the content"),
    h(
      "header",
      {},
      h(
        "a",
        { class: "brand", href: linkTo(menuViews[0].name) },
        h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
        "kvlab",
      ),
      menu,
      segments("Theme", themes, theme, setTheme),
    ),
    root,
    h("div", { id: "announcement", class: "visually-hidden", role: "status", "aria-live": "polite" }),
  );
  root.append(h("p", { class: "hint" }, "Loading the list of runs …"));
  try {
    await server.start();
  } catch (error) {
    root.replaceChildren(h("p", { class: "problem", role: "alert" }, (error as Error).message));
    return;
  }
  addEventListener("hashchange", showRoute);
  showRoute();
}

function focusMain(event: Event): void {
  event.preventDefault();
  root.focus();
}

void start();
