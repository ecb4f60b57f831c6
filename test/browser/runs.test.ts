import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let url = "";

/** The names of the runs in the order of the table. */
const listed = (page: Page) => page.locator("tbody a.id").allTextContents();
const dialog = (page: Page) => page.getByRole("dialog");

async function edit(page: Page, id: string, fields: Readonly<Record<string, string>>): Promise<void> {
  await page.getByRole("button", { name: `Edit ${id}`, exact: true }).click();
  for (const [label, value] of Object.entries(fields)) await dialog(page).getByLabel(label).fill(value);
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await dialog(page).waitFor({ state: "detached" });
}

describe.runIf(hasBrowser)("names, tags and notes of runs", () => {
  beforeAll(async () => {
    for (const eviction of ["lru", "fifo"])
      for (const blocks of ["100", "300"])
        await kvlab(folder, [
          ...["replay", "example", "--limit", "200", "--eviction", eviction, "--blocks", blocks],
          ...["--out", `runs/${eviction}-${blocks}`],
        ]);
    url = (await dashboardOver(runs, { page: await bundlePage() })).dashboard.url;
  }, 120_000);

  test("are found by the search, and shown by another dashboard over the folder", async () => {
    const page = await visit(`${url}#/runs`);
    await edit(page, "lru-100", { Name: "Paper | LRU <b>", Tags: "paper draft-2", Notes: "for figure three" });
    await edit(page, "fifo-300", { Tags: "paper" });
    await expect.poll(() => listed(page)).toContain("Paper | LRU <b>");
    const other = await visit(`${(await dashboardOver(runs, { page: await bundlePage() })).dashboard.url}#/runs`);
    for (const [search, found] of [
      ["tag=paper", ["Paper | LRU <b>", "fifo-300"]],
      ["tag=draft", ["Paper | LRU <b>"]],
      ["figure three", ["Paper | LRU <b>"]],
      ["tag=paper fifo", ["fifo-300"]],
      ["lru-100", ["Paper | LRU <b>"]],
      ["tag=none", []],
    ] as const) {
      await other.getByLabel("Search").fill(search);
      await expect.poll(async () => (await listed(other)).sort()).toEqual(found);
    }
    await other.getByLabel("Search").fill("");
    await other.getByRole("link", { name: "draft-2" }).click();
    await expect.poll(() => listed(other)).toEqual(["Paper | LRU <b>"]);
    await edit(other, "lru-100", { Name: "", Tags: "", Notes: "" });
    await expect.poll(() => listed(page)).toContain("lru-100");
  });

  test("tags are added to all selected runs, and an invalid one is refused in the dialog", async () => {
    const page = await visit(`${url}#/runs?q=lru`);
    await page.getByRole("button", { name: "Select all" }).click();
    await page.getByRole("button", { name: "Tag…" }).click();
    await dialog(page).getByLabel("Tags").fill("a=b");
    await dialog(page).getByRole("button", { name: "Add" }).click();
    await dialog(page).getByRole("alert").filter({ hasText: "expected tags without spaces" }).waitFor();
    await dialog(page).getByLabel("Tags").fill("sweep-1");
    expect(await violations(page)).toEqual([]);
    await dialog(page).getByRole("button", { name: "Add" }).click();
    await expect.poll(() => page.locator("tbody .tag").allTextContents()).toEqual(["sweep-1", "sweep-1"]);
  });

  test("a hidden run is in no list, not in Compare and not in Answer, until it is shown again", async () => {
    const page = await visit(`${url}#/runs`);
    await page.getByRole("checkbox", { name: "Select fifo-100" }).check();
    await page.getByRole("button", { name: "Hide" }).click();
    await page.getByText("3 of 4 runs, 1 hidden").waitFor();
    await page.goto(`${url}#/compare?trace=example`);
    const differences = page.getByRole("region", { name: "Differences" });
    await differences.getByRole("link", { name: "fifo" }).first().waitFor();
    expect(await differences.locator("tbody tr").count()).toBe(3);
    await page.goto(`${url}#/answer`);
    await page.getByText("fifo").first().waitFor();
    expect(await page.getByRole("cell", { name: "fifo" }).count()).toBeLessThan(2);
    // A run that is selected is compared, hidden or not.
    await page.goto(`${url}#/compare?runs=fifo-100,lru-100`);
    await page.getByText("2 selected runs").waitFor();
    await page.goto(`${url}#/runs?hidden=yes`);
    await page.getByRole("checkbox", { name: "Select fifo-100" }).check();
    await page.getByRole("button", { name: "Show again" }).click();
    await page.getByText("4 of 4 runs").waitFor();
  });

  test("the baseline is the default reference of Compare", async () => {
    const page = await visit(`${url}#/runs`);
    await page.getByRole("button", { name: "Edit fifo-100" }).click();
    await dialog(page).getByLabel("Baseline").check();
    await dialog(page).getByRole("button", { name: "Save" }).click();
    await page.locator("tr", { hasText: "fifo-100" }).getByText("baseline").waitFor();
    const baseline = page.getByRole("combobox", { name: "Baseline" });
    await page.goto(`${url}#/compare?trace=example`);
    await expect.poll(() => baseline.locator("option:checked").textContent()).toBe("fifo, same cache size");
    await page.goto(`${url}#/compare?runs=lru-100,fifo-100,lru-300`);
    await expect.poll(() => baseline.inputValue()).toBe("fifo-100");
    await page.goto(`${url}#/compare?runs=lru-100,fifo-100,lru-300&base=lru-300`);
    await expect.poll(() => baseline.inputValue()).toBe("lru-300");
  });

  test("deleting asks first, and the run of a folder with other files stays", async () => {
    cpSync(join(runs, "lru-100"), join(runs, "spare"), { recursive: true });
    cpSync(join(runs, "lru-100"), join(runs, "with-others"), { recursive: true });
    mkdirSync(join(runs, "with-others/data"));
    const page = await visit(`${url}#/runs`);
    const ask = async (id: string) => {
      await page.getByRole("button", { name: `Edit ${id}`, exact: true }).click();
      await dialog(page).getByRole("button", { name: "Delete…" }).click();
      await dialog(page).getByRole("heading", { name: "Delete 1 run?" }).waitFor();
    };
    await ask("spare");
    await page.keyboard.press("Enter");
    await dialog(page).waitFor({ state: "detached" });
    expect(existsSync(join(runs, "spare/run.json"))).toBe(true);
    await ask("spare");
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("link", { name: "spare" }).waitFor({ state: "detached" });
    expect(existsSync(join(runs, "spare"))).toBe(false);
    await ask("with-others");
    await dialog(page).getByRole("button", { name: "Delete", exact: true }).click();
    await dialog(page).getByRole("alert").filter({ hasText: "has other files in it" }).waitFor();
    expect(JSON.parse(readFileSync(join(runs, "with-others/run.json"), "utf8")).schema).toBe("run/1");
  });
});
