import { announce, h } from "./dom.ts";

/** The command line that reproduces a run, with a button that copies it. */
export function commandCard(command: string): HTMLElement {
  const copy = async () => {
    await navigator.clipboard.writeText(command);
    button.textContent = "Copied";
    announce("Command copied");
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  };
  const button = h("button", { type: "button", click: copy }, "Copy");
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "Command to reproduce"), button),
    h("pre", {}, h("code", {}, command)),
  );
}
