import type { RunNotesChange, RunRow } from "../../api.ts";
import { dateText } from "../data/format.ts";
import { changeNotes, deleteRun } from "../data/server.ts";
import { linkTo } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { showDialog } from "./dialog.ts";
import { announce, h } from "./dom.ts";

type Context = Pick<ViewContext, "server" | "signal">;

/** The tags of a run, as links to the runs that have them. */
export const tagLinks = ({ notes }: RunRow): HTMLElement[] =>
  (notes?.tags ?? []).map((tag) => h("a", { class: "badge tag", href: linkTo("runs", { q: `tag=${tag}` }) }, tag));

/** Badges of what users have set: the baseline, hidden runs, and tags. */
export const notesBadges = (row: RunRow): HTMLElement[] => [
  ...(row.notes?.baseline ? [h("span", { class: "badge" }, "baseline")] : []),
  ...(row.notes?.hidden ? [h("span", { class: "badge" }, "hidden")] : []),
  ...tagLinks(row),
];

/** A button that opens the dialog with a run's name, tags and notes. */
export const editButton = (row: RunRow, context: Context): HTMLElement =>
  h(
    "button",
    { type: "button", class: "small", "aria-label": `Edit ${row.id}`, click: () => editRun(row, context) },
    "Edit",
  );

const tagsIn = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

/** A dialog with what users can note about a run. Only fields that were changed are sent. */
function editRun(row: RunRow, context: Context): void {
  const { notes = {} } = row;
  const name = h("input", { type: "text", value: notes.name ?? "", maxlength: 100, placeholder: row.id });
  const tags = h("input", { type: "text", value: (notes.tags ?? []).join(" "), placeholder: "paper draft-2" });
  const text = h("textarea", { rows: 4, maxlength: 10_000 }, notes.text ?? "");
  const baseline = h("input", { type: "checkbox", checked: notes.baseline });
  const hidden = h("input", { type: "checkbox", checked: notes.hidden });
  const removal = h(
    "button",
    {
      type: "button",
      click: () => {
        dialog.close();
        confirmDeletion([row], context);
      },
    },
    "Delete…",
  );
  const submit = async () => {
    const edited: RunNotesChange = {
      ...(name.value.trim() !== (notes.name ?? "") && { name: name.value }),
      ...(tagsIn(tags.value).join(" ") !== (notes.tags ?? []).join(" ") && { tags: tagsIn(tags.value) }),
      ...(text.value.trim() !== (notes.text ?? "") && { text: text.value }),
      ...(baseline.checked !== (notes.baseline ?? false) && { baseline: baseline.checked }),
      ...(hidden.checked !== (notes.hidden ?? false) && { hidden: hidden.checked }),
    };
    if (Object.keys(edited).length === 0) return;
    await changeNotes(row.id, edited);
    await context.server.refresh();
    announce(`${row.id} saved`);
  };
  const checkboxField = (input: HTMLElement, label: string, hint: string) =>
    h("label", { class: "checkbox-field" }, input, h("span", {}, label, " ", h("small", { class: "hint" }, hint)));
  const dialog = showDialog(
    {
      title: "Edit run",
      body: [
        h("p", { class: "hint id" }, row.id),
        field("Name", name),
        field("Tags, separated by spaces", tags),
        field("Notes", text),
        checkboxField(baseline, "Baseline", "the default reference of its workload in Compare and Answer"),
        checkboxField(hidden, "Hidden", "not listed, and not in Compare and Answer"),
      ],
      action: "Save",
      others: [removal],
      submit,
    },
    context.signal,
  );
}

const field = (label: string, input: HTMLElement) => h("label", { class: "field" }, h("span", {}, label), input);

/** A dialog that adds tags to runs. */
export function addTags(rows: readonly RunRow[], context: Context): void {
  const tags = h("input", { type: "text", placeholder: "paper", required: true });
  const submit = async () => {
    for (const { id, notes } of rows)
      await changeNotes(id, { tags: [...new Set([...(notes?.tags ?? []), ...tagsIn(tags.value)])] });
    await context.server.refresh();
    announce(`${runsText(rows)} tagged`);
  };
  const title = `Add tags to ${runsText(rows)}`;
  showDialog({ title, body: [field("Tags, separated by spaces", tags)], action: "Add", submit }, context.signal);
}

/** Hides runs, or shows them again. */
export async function setHidden(rows: readonly RunRow[], hidden: boolean, { server }: Context): Promise<void> {
  try {
    for (const { id } of rows) await changeNotes(id, { hidden });
    announce(`${runsText(rows)} ${hidden ? "hidden" : "shown again"}`);
  } catch (error) {
    announce((error as Error).message);
  }
  await server.refresh();
}

const listedAtMost = 8;

/** Asks before it deletes the folders of runs. `onDelete`: called for each deleted run. */
export function confirmDeletion(
  rows: readonly RunRow[],
  context: Context,
  onDelete: (id: string) => void = () => {},
): void {
  const submit = async () => {
    try {
      for (const { id } of rows) {
        await deleteRun(id);
        onDelete(id);
      }
      announce(`${runsText(rows)} deleted`);
    } finally {
      await context.server.refresh();
    }
  };
  const listed = rows.slice(0, listedAtMost);
  showDialog(
    {
      title: `Delete ${runsText(rows)}?`,
      body: [
        h("p", {}, "The folders with their reports and tables are deleted. This cannot be undone."),
        h(
          "ul",
          { class: "to-delete" },
          ...listed.map(({ id, savedAtMs }) => h("li", { class: "id" }, `${id}, saved ${dateText(savedAtMs)}`)),
          rows.length > listed.length && h("li", {}, `and ${rows.length - listed.length} more`),
        ),
      ],
      action: "Delete",
      isDestructive: true,
      submit,
    },
    context.signal,
  );
}

const runsText = (rows: readonly RunRow[]) => (rows.length === 1 ? "1 run" : `${rows.length} runs`);
