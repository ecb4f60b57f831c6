import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import type { RunList, RunNotes, RunNotesChange } from "../../viz/api.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let client: Client;
let other: Client;

beforeAll(async () => {
  await kvlab(folder, ["replay", "example", "--limit", "30", "--blocks", "50", "--out", "runs/one"]);
  await kvlab(folder, ["replay", "example", "--limit", "30", "--blocks", "60", "--out", "runs/two"]);
  await kvlab(folder, ["replay", "example", "--limit", "20", "--blocks", "60", "--out", "runs/of-another-workload"]);
  client = await dashboardOver(runs);
  other = await dashboardOver(runs);
}, 120_000);

async function notesOf(id: string, from: Client = client): Promise<RunNotes | undefined> {
  const row = (await from.get<RunList>("/api/runs")).runs.find((each) => each.id === id);
  return row && !("problem" in row) ? row.notes : undefined;
}

async function change(id: string, fields: RunNotesChange, at: Client = client): Promise<RunNotes> {
  const { status, text } = await at.patch(id, fields);
  expect({ status, text: status === 200 ? "" : text }).toEqual({ status: 200, text: "" });
  return JSON.parse(text);
}

const text = fc.string({ unit: "grapheme", maxLength: 40 }).map((each) => each.replace(/\p{Cc}/gu, "").trim());
const tag = fc.stringMatching(/^[a-z0-9.-]{1,12}$/);
const changes = fc.record(
  {
    name: text,
    tags: fc.uniqueArray(tag, { maxLength: 5 }),
    text,
    hidden: fc.boolean(),
  },
  { requiredKeys: [] },
);

test("a dashboard shows what another one has noted: the last value of each field", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(changes, fc.boolean()), { minLength: 1, maxLength: 6 }), async (all) => {
      let expected: Record<string, unknown> = { ...(await notesOf("one")) };
      for (const [fields, isOther] of all) {
        if (Object.keys(fields).length === 0) continue;
        await change("one", fields, isOther ? other : client);
        expected = { ...expected, ...fields };
      }
      const kept = Object.entries(expected).filter(([, value]) => value !== "" && value !== false && `${value}` !== "");
      const notes = kept.length === 0 ? undefined : Object.fromEntries(kept);
      expect(await notesOf("one", client)).toEqual(notes);
      expect(await notesOf("one", other)).toEqual(notes);
    }),
    { numRuns: 30 },
  );
  await change("one", { name: "", tags: [], text: "", hidden: false });
  expect(readdirSync(join(runs, ".notes"))).toEqual([]);
});

test("notes of different runs that two dashboards change at once are all kept", async () => {
  const names = Array.from({ length: 20 }, (_, i) => `name ${i}`);
  await Promise.all(
    names.flatMap((name, i) => [
      change("one", i % 2 === 0 ? { name } : { text: name }, client),
      change("two", i % 2 === 0 ? { name } : { text: name }, other),
    ]),
  );
  for (const id of ["one", "two"]) expect(await notesOf(id)).toEqual({ name: "name 18", text: "name 19" });
  for (const id of ["one", "two"]) await change(id, { name: "", text: "" });
});

test("a pinned baseline replaces that of the same workload, and of no other", async () => {
  await change("of-another-workload", { baseline: true });
  await change("one", { baseline: true });
  await change("two", { baseline: true });
  expect(await notesOf("one")).toBeUndefined();
  expect([await notesOf("two"), await notesOf("of-another-workload")]).toEqual([
    { baseline: true },
    { baseline: true },
  ]);
  for (const id of ["two", "of-another-workload"]) await change(id, { baseline: false });
});

test("a run that is replaced keeps its notes; one that was removed outside has none in the list", async () => {
  cpSync(join(runs, "one"), join(runs, "later"), { recursive: true });
  await change("later", { name: "kept" });
  rmSync(join(runs, "later"), { recursive: true });
  expect(await notesOf("later")).toBeUndefined();
  cpSync(join(runs, "two"), join(runs, "later"), { recursive: true });
  expect(await notesOf("later")).toEqual({ name: "kept" });
  expect((await client.request("/api/runs/later", { method: "DELETE" })).status).toBe(204);
  expect(readdirSync(join(runs, ".notes"))).toEqual([]);
});

test("runs can be saved into a folder with notes", async () => {
  await change("one", { tags: ["paper"] });
  const { stderr } = await kvlab(folder, [
    "compare",
    "example",
    "--limit",
    "20",
    "--eviction",
    "lru",
    "--blocks",
    "50",
    "--out",
    "runs",
  ]);
  expect(stderr).not.toContain(".notes");
  expect(await notesOf("one")).toEqual({ tags: ["paper"] });
  await change("one", { tags: [] });
});

test.each<[string, string, unknown]>([
  ["nothing", "the notes", {}],
  ["a list", "the notes", []],
  ["another field", "id", { id: "two" }],
  ["a path", "path", { path: "/etc" }],
  ["a name of two lines", "name", { name: "a\nb" }],
  ["a long name", "name", { name: "a".repeat(101) }],
  ["a number as a name", "name", { name: 5 }],
  ["a tag with a space", "tags", { tags: ["a b"] }],
  ["a tag with =", "tags", { tags: ["a=b"] }],
  ["an empty tag", "tags", { tags: [""] }],
  ["many tags", "tags", { tags: Array.from({ length: 21 }, (_, i) => `${i}`) }],
  ["a long text", "text", { text: "a".repeat(10_001) }],
  ["a word as a switch", "hidden", { hidden: "yes" }],
])("notes with %s are refused, naming the field", async (_, field, body) => {
  const { status, text } = await client.patch("one", body);
  expect([status, JSON.parse(text).error.split(":")[0]]).toEqual([400, field]);
  expect(await notesOf("one")).toBeUndefined();
});

test("files that are not notes are ignored", async () => {
  const notes = join(runs, ".notes");
  mkdirSync(notes, { recursive: true });
  for (const content of [
    "",
    "{",
    "[]",
    '{"schema":"notes/2"}',
    '{"schema":"notes/1","name":"a\\nb"}',
    `"${"a".repeat(70_000)}"`,
  ]) {
    writeFileSync(join(notes, "one"), content);
    const over = await dashboardOver(runs);
    expect(await notesOf("one", over)).toBeUndefined();
  }
  rmSync(join(notes, "one"));
  symlinkSync(join(runs, "one/run.json"), join(notes, "one"));
  await change("one", { name: "no link" });
  expect(JSON.parse(readFileSync(join(runs, "one/run.json"), "utf8")).schema).toBe("run/1");
  await change("one", { name: "" });
});

test("notes are not written through a link that leads out of the folder", async () => {
  const linked = join(folder, "linked");
  const elsewhere = join(folder, "elsewhere");
  mkdirSync(elsewhere);
  cpSync(join(runs, "one"), join(linked, "one"), { recursive: true });
  symlinkSync(elsewhere, join(linked, ".notes"));
  const over = await dashboardOver(linked);
  expect((await over.patch("one", { name: "outside" })).status).toBe(403);
  expect(readdirSync(elsewhere)).toEqual([]);
});

describe("a run is deleted only", () => {
  const remove = async (id: string, headers: Record<string, string> = {}) =>
    (await client.request(`/api/runs/${id}`, { method: "DELETE", headers })).status;

  test.each(["..", "%2e%2e", "..%2frun", ".notes", ".live", "one%2frun.json", "%2fetc", "one%00", "no-such-run"])(
    "inside the folder of runs, not as %s",
    async (id) => {
      const before = readdirSync(folder, { recursive: true }).sort();
      expect([400, 404]).toContain(await remove(id));
      expect([400, 404]).toContain((await client.patch(id, { name: "a" })).status);
      expect(readdirSync(folder, { recursive: true }).sort()).toEqual(before);
    },
  );

  test("by the page itself", async () => {
    for (const headers of [{ origin: "http://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      expect(await remove("one", headers)).toBe(403);
      expect((await client.patch("one", { name: "a" }, headers)).status).toBe(403);
    }
    expect((await client.patch("one", "name=a", { "content-type": "application/x-www-form-urlencoded" })).status).toBe(
      415,
    );
    expect(existsSync(join(runs, "one/run.json"))).toBe(true);
  });

  test("if it is a folder with the files of a run", async () => {
    cpSync(join(runs, "one"), join(runs, "with-others"), { recursive: true });
    writeFileSync(join(runs, "with-others/thesis.txt"), "the only copy");
    mkdirSync(join(runs, "empty"));
    symlinkSync(join(runs, "one"), join(runs, "link"));
    expect(await remove("with-others")).toBe(409);
    expect(await remove("empty")).toBe(422);
    expect(await remove("link")).toBe(409);
    for (const name of ["with-others/thesis.txt", "empty", "link", "one/run.json"])
      expect(existsSync(join(runs, name)), name).toBe(true);
    for (const name of ["with-others", "empty", "link"]) rmSync(join(runs, name), { recursive: true });
  });

  test("if no process is writing it", async () => {
    cpSync(join(runs, "one"), join(runs, "replaced"), { recursive: true });
    const live = join(runs, ".live/now");
    mkdirSync(live, { recursive: true });
    const header = {
      ...{ schema: "live/1", pid: process.pid, host: hostname(), command: "kvlab", run: "replaced", trace: "example" },
      ...{ requests: 30, target: "cache", preset: null, index: "hash-table", eviction: "lru", allocator: "block" },
      ...{ scheduler: "naive", victims: "any", blocks: 50, blockTokens: 16 },
    };
    writeFileSync(join(live, "header.json"), JSON.stringify(header));
    const found = (await client.get<{ live: unknown[] }>("/api/live")).live;
    expect(found).toEqual([expect.objectContaining({ run: "replaced", state: "running" })]);
    expect(await remove("replaced")).toBe(409);
    rmSync(join(runs, ".live"), { recursive: true });
    expect(await remove("replaced")).toBe(204);
    expect(existsSync(join(runs, "replaced"))).toBe(false);
  });

  test("completely: no hidden folder stays", async () => {
    cpSync(join(runs, "one"), join(runs, "gone"), { recursive: true });
    expect(await remove("gone")).toBe(204);
    expect(readdirSync(runs).filter((name) => name.includes("gone"))).toEqual([]);
  });
});
