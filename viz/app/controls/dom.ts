type Child = Node | string | number | undefined | false;
type Props = Readonly<Record<string, unknown>>;

/** An element: functions become listeners, `true` an empty attribute; what is undefined or false is left out. */
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

/** A labelled list to choose one from. */
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

/** Exchanges what can be chosen in a list that `select` made; one that is open and has the same stays as it is. */
export function setChoices(list: HTMLLabelElement, choices: readonly Choice[], chosen: string): void {
  const select = list.querySelector("select")!;
  const before = [...select.options].map(({ value, text }) => `${value}\n${text}`).join("\n");
  if (before !== choices.map(({ value, label }) => `${value}\n${label}`).join("\n"))
    select.replaceChildren(...choices.map(({ value, label }) => h("option", { value }, label)));
  select.value = chosen;
}

/** A row of buttons of which one is pressed. */
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

/** Fills `host` anew: the page stays where it was scrolled to, and what had the focus has it again. */
export function refill(host: HTMLElement, fill: () => void): void {
  const { scrollX, scrollY } = window;
  const focused = host.contains(document.activeElement) ? controlOf(document.activeElement!) : undefined;
  host.style.minHeight = `${host.offsetHeight}px`;
  host.replaceChildren();
  fill();
  scrollTo(scrollX, scrollY);
  const controls = [...host.querySelectorAll<HTMLElement>("a, button, input, select, summary, [tabindex]")];
  if (focused) controls.find((each) => controlOf(each) === focused)?.focus({ preventScroll: true });
  // Figures come to their height when they have their data.
  setTimeout(() => {
    host.style.minHeight = "";
  }, refillMs);
}

const refillMs = 1500;

/** What a control is, by what it is called. */
const controlOf = (element: Element) =>
  `${element.tagName} ${element.ariaLabel ?? element.closest("label")?.querySelector("span")?.textContent ?? element.textContent}`;

/** Said by screen readers, not seen. */
export function announce(text: string): void {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}
