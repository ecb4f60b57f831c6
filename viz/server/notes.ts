import { lstat, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { unfinished } from "../../core/unfinished.ts";
import type { RunNotes, RunNotesChange } from "../api.ts";
import { isChildName } from "./inside.ts";
import { Refusal } from "./refusal.ts";

/** The hidden folder of notes beside the runs: a JSON file for each run that has some, with the name of the run. */
const notesFolder = ".notes";

const mostBytes = 1 << 16;
/** Number of files that are read concurrently. */
const atOnce = 32;

const name = z
  .string()
  .trim()
  .max(100, { error: "expected at most 100 characters" })
  .regex(/^\P{Cc}*$/u, { error: "expected one line" });
const tag = z
  .string()
  .max(50, { error: "expected tags of at most 50 characters" })
  .regex(/^[^\s,=\p{Cc}]+$/u, { error: "expected tags without spaces, commas and =" });
const tags = z
  .array(tag)
  .max(20, { error: "expected at most 20 tags" })
  .transform((all) => [...new Set(all)]);
const text = z.string().trim().max(10_000, { error: "expected at most 10,000 characters" });

/** The content of a file. */
const stored = z.object({
  schema: z.literal("notes/1"),
  name: name.optional(),
  tags: tags.optional(),
  text: text.optional(),
  hidden: z.literal(true).optional(),
  baseline: z.literal(true).optional(),
});

/** The body of PATCH /api/runs/:id. */
const change = z
  .strictObject({ name, tags, text, hidden: z.boolean(), baseline: z.boolean() })
  .partial()
  .refine((fields) => Object.keys(fields).length > 0, { error: "expected at least one field" });

/** @throws Refusal that begins with the field, if the body is not a change of notes */
export function parseChange(body: unknown): RunNotesChange {
  const parsed = change.safeParse(body);
  if (parsed.success) return parsed.data as RunNotesChange;
  const [issue] = parsed.error.issues;
  if (issue.code === "unrecognized_keys")
    throw new Refusal(400, `${issue.keys[0].slice(0, 100)}: is not a field of notes`);
  throw new Refusal(400, `${issue.path[0] === undefined ? "the notes" : String(issue.path[0])}: ${issue.message}`);
}

/**
 * What users have noted about the runs of a folder. Each run has a file of its own, which is replaced atomically, so that two
 * dashboards that change the notes of different runs never conflict; of two changes of one run at once, one may be lost.
 */
export class Notes {
  readonly #runs: string;
  readonly #known = new Map<string, { readonly version: string; readonly notes: RunNotes | undefined }>();
  #stamp = "";
  #changed: Promise<unknown> = Promise.resolve();
  #written = 0;

  /** `runs`: the folder of runs. */
  constructor(runs: string) {
    this.#runs = runs;
  }

  get #folder(): string {
    return join(this.#runs, notesFolder);
  }

  /** The notes of a run; the same object while they do not change. Those of the last `refresh` or `change`. */
  of(id: string): RunNotes | undefined {
    return this.#known.get(id)?.notes;
  }

  /** Changes when any notes have changed; cheap to compute. */
  async stamp(): Promise<string> {
    const found = await stat(this.#folder, { bigint: true }).catch(() => undefined);
    return found ? `${found.ino} ${found.mtimeNs}` : "";
  }

  /** Reads the files that have changed. Files that are not notes are ignored. */
  async refresh(): Promise<void> {
    const stamp = await this.stamp();
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    const entries = await readdir(this.#folder, { withFileTypes: true }).catch(() => []);
    const ids = entries.filter((entry) => entry.isFile() && isChildName(entry.name)).map((entry) => entry.name);
    const present = new Set(ids);
    for (const id of this.#known.keys()) if (!present.has(id)) this.#known.delete(id);
    for (let at = 0; at < ids.length; at += atOnce)
      await Promise.all(ids.slice(at, at + atOnce).map((id) => this.#read(id)));
  }

  /** Changes the given fields of a run's notes; "", [] and false remove a field. @throws Refusal if they cannot be written */
  change(id: string, fields: RunNotesChange): Promise<void> {
    const done = this.#changed.then(() => this.#change(id, fields));
    this.#changed = done.catch(() => {});
    return done;
  }

  /** Removes the notes of a run that has been deleted. */
  async remove(id: string): Promise<void> {
    await rm(join(this.#folder, id), { force: true }).catch(() => {});
    this.#known.delete(id);
  }

  async #read(id: string): Promise<void> {
    const path = join(this.#folder, id);
    try {
      const found = await lstat(path);
      const version = `${found.ino} ${found.size} ${found.mtimeMs}`;
      if (this.#known.get(id)?.version === version) return;
      const isReadable = found.isFile() && found.size <= mostBytes;
      this.#known.set(id, { version, notes: isReadable ? parseNotes(await readFile(path, "utf8")) : undefined });
    } catch {
      this.#known.delete(id);
    }
  }

  async #change(id: string, fields: RunNotesChange): Promise<void> {
    await this.#read(id);
    const all = Object.entries({ ...this.of(id), ...fields });
    const kept = all.filter(
      ([, value]) => value !== false && value !== "" && (value as { length?: number }).length !== 0,
    );
    const path = join(this.#folder, id);
    // Hidden, and not the name of a run.
    const temporary = join(this.#folder, `.${process.pid}.${++this.#written}.tmp`);
    const isLink = (await lstat(this.#folder).catch(() => undefined))?.isSymbolicLink();
    if (isLink) throw new Refusal(403, `the notes cannot be written (${notesFolder} is a link)`);
    try {
      if (kept.length === 0) await rm(path, { force: true });
      else {
        await mkdir(this.#folder, { recursive: true });
        unfinished.add(temporary);
        await writeFile(
          temporary,
          `${JSON.stringify({ schema: "notes/1", ...Object.fromEntries(kept) }, undefined, 2)}\n`,
        );
        await rename(temporary, path);
      }
    } catch (error) {
      throw new Refusal(403, `the notes cannot be written (${(error as NodeJS.ErrnoException).code})`);
    } finally {
      await rm(temporary, { force: true }).catch(() => {});
      unfinished.delete(temporary);
    }
    await this.#read(id);
  }
}

/** Undefined if the text is not a file of notes. */
function parseNotes(json: string): RunNotes | undefined {
  try {
    const { schema: _, ...notes } = stored.parse(JSON.parse(json));
    return notes as RunNotes;
  } catch {
    return undefined;
  }
}
