import { h } from "./dom.ts";

/** A field for the number of a request, whose history is opened by Enter. */
export function requestField(open: (request: number) => void): HTMLElement {
  const input = h("input", { type: "number", min: 0, step: 1, placeholder: "number" });
  const submit = (event: Event) => {
    event.preventDefault();
    if (input.value !== "" && input.validity.valid) open(Number(input.value));
  };
  return h(
    "form",
    { class: "request-field", submit },
    h("label", { class: "field" }, h("span", {}, "Open the history of request"), input),
  );
}
