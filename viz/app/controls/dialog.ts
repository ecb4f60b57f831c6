import { h } from "./dom.ts";

/** The content of a dialog. */
export interface DialogOptions {
  readonly title: string;
  readonly body: readonly Node[];
  /** The button that submits the dialog. */
  readonly action: string;
  /** Whether the action destroys something: the focus is first on Cancel. */
  readonly isDestructive?: boolean;
  /** Further buttons, left of the others. */
  readonly others?: readonly HTMLElement[];
  /** Performs the action. The dialog stays open, with the message of the error, if it throws. */
  submit(): Promise<void>;
}

/** Shows a modal dialog, which Escape and Cancel close. It is closed when `signal` is aborted. */
export function showDialog(options: DialogOptions, signal: AbortSignal): HTMLDialogElement {
  const { title, body, action, isDestructive = false, others = [] } = options;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const submitButton = h("button", { type: "submit", class: isDestructive ? "main destructive" : "main" }, action);
  const cancel = h("button", { type: "button", click: () => dialog.close(), autofocus: isDestructive }, "Cancel");
  const submit = async (event: Event) => {
    event.preventDefault();
    submitButton.disabled = true;
    try {
      await options.submit();
      dialog.close();
    } catch (error) {
      problem.textContent = (error as Error).message;
      problem.hidden = false;
    } finally {
      submitButton.disabled = false;
    }
  };
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title" },
    h(
      "form",
      { submit },
      h("h2", { id: "dialog-title" }, title),
      ...body,
      problem,
      h("div", { class: "dialog-actions" }, h("span", { class: "others" }, ...others), cancel, submitButton),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  signal.addEventListener("abort", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
