type Child = Node | string | number | undefined | false;
type Props = Readonly<Record<string, unknown>>;

/** Creates an element. Functions become listeners, `true` an empty attribute; undefined and false are skipped. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  props: Props = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== false).map(textOrNode));
  return element;
}

const textOrNode = (child: Child): Node | string => (child instanceof Node ? child : String(child));

export interface Choice {
  readonly value: string;
  readonly label: string;
}

/** A labelled drop-down list. */
export function select(
  label: string,
  choices: readonly Choice[],
  chosen: string,
  onChange: (value: string) => void,
): HTMLLabelElement {
  const options = choices.map(({ value, label }) => h("option", { value, selected: value === chosen }, label));
  const change = (event: Event) => onChange((event.target as HTMLSelectElement).value);
  return h("label", { class: "field" }, h("span", {}, label), h("select", { change }, ...options));
}

/** Replaces the choices of a list that `select` made. Equal choices are kept, so that an open list stays open. */
export function setChoices(list: HTMLLabelElement, choices: readonly Choice[], chosen: string): void {
  const select = list.querySelector("select")!;
  const before = [...select.options].map(({ value, text }) => `${value}\n${text}`).join("\n");
  if (before !== choices.map(({ value, label }) => `${value}\n${label}`).join("\n"))
    select.replaceChildren(...choices.map(({ value, label }) => h("option", { value }, label)));
  select.value = chosen;
}

/** A row of toggle buttons, one of which is pressed. */
export function segments(
  label: string,
  choices: readonly Choice[],
  chosen: string,
  onChange: (value: string) => void,
): HTMLElement {
  const buttons = choices.map(({ value, label }) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), click: () => press(value) }, label),
  );
  const press = (value: string) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(choices[i].value === value));
    });
    onChange(value);
  };
  return h("div", { class: "segments", role: "group", "aria-label": label }, ...buttons);
}

/** Replaces the content of `host` by what `build` appends; keeps the scroll position and the focused control. */
export function rebuild(host: HTMLElement, build: () => void): void {
  const { scrollX, scrollY } = window;
  const focused = host.contains(document.activeElement) ? controlKey(document.activeElement!) : undefined;
  host.style.minHeight = `${host.offsetHeight}px`;
  host.replaceChildren();
  build();
  scrollTo(scrollX, scrollY);
  const controls = [...host.querySelectorAll<HTMLElement>("a, button, input, select, summary, [tabindex]")];
  if (focused) controls.find((each) => controlKey(each) === focused)?.focus({ preventScroll: true });
  // Figures get their final height when their data has arrived.
  setTimeout(() => {
    host.style.minHeight = "";
  }, settleMs);
}

const settleMs = 1500;

/** Identifies a control by its tag and its label. */
const controlKey = (element: Element) =>
  `${element.tagName} ${element.ariaLabel ?? element.closest("label")?.querySelector("span")?.textContent ?? element.textContent}`;

/** Makes screen readers read a text; it is not visible. */
export function announce(text: string): void {
  const region = document.getElementById("announcement");
  if (region) region.textContent = text;
}
