import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { ended, newFolder, start } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
const traces = join(folder, "traces");
let url = "";

async function kvlab(...args: string[]): Promise<void> {
  const { code, stderr } = await ended(start(folder, args));
  if (code !== 0) throw new Error(stderr);
}

describe.runIf(hasBrowser)("the dashboard in a browser", () => {
  beforeAll(async () => {
    mkdirSync(traces);
    writeFileSync(join(traces, "notes.jsonl"), '{"text": 1}\n');
    writeFileSync(join(traces, "empty.csv"), "");
    writeFileSync(
      join(traces, "mooncake.jsonl"),
      '{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}\n',
    );
    const timed = ["--limit", "60", "--target", "sim", "--preset", "vllm"];
    await kvlab("replay", "example", ...timed, "--blocks", "1000", "--out", "runs/timed");
    const { dashboard } = await dashboardOver(runs, { page: await bundlePage(), traces: [traces] });
    url = dashboard.url;
  }, 120_000);

  test.each(["toString", "constructor", "nothing"])(
    "the address #/%s names no page, which the page says",
    async (name) => {
      const page = await visit(`${url}#/${name}`);
      await page.getByText(`The address names no page: "${name}".`).waitFor();
      expect(await page.getByRole("navigation").locator("[aria-current]").count()).toBe(0);
      await page.getByRole("main").getByRole("link", { name: "Answer" }).click();
      await page.getByRole("heading", { name: "Which policy?" }).waitFor();
    },
  );

  test.each(["run", "travel", "live"])("the address #/%s without a run says so and links to all runs", async (name) => {
    const page = await visit(`${url}#/${name}`);
    await page.getByText("The address names no run.").waitFor();
    await page.getByRole("link", { name: "All runs" }).click();
    await page.getByRole("link", { name: "timed" }).waitFor();
  });

  test("a run with a comma in its name is selected, compared and opened", async () => {
    cpSync(join(runs, "timed"), join(runs, "a,b 100%"), { recursive: true });
    const page = await visit(`${url}#/runs`);
    await page.getByRole("checkbox", { name: "Select a,b 100%" }).check();
    await page.getByRole("checkbox", { name: "Select timed" }).check();
    await page.reload();
    await page.getByRole("link", { name: "Compare 2" }).click();
    await page.getByText("2 selected runs").waitFor();
    await page.getByRole("region", { name: "Differences" }).getByRole("link", { name: "a,b 100%" }).click();
    await page.getByRole("heading", { name: "a,b 100%" }).waitFor();
    rmSync(join(runs, "a,b 100%"), { recursive: true });
  });

  test("a server that has ended is named as such, not as a failed fetch", async () => {
    const { dashboard } = await dashboardOver(runs, { page: await bundlePage() });
    const page = await visit(`${dashboard.url}#/start`);
    await page.getByRole("button", { name: "Start" }).waitFor();
    // A change just before the end: its list of runs cannot be fetched any more.
    mkdirSync(join(runs, "late"));
    await dashboard.close();
    rmSync(join(runs, "late"), { recursive: true });
    await page.getByRole("button", { name: "Start" }).click();
    const problem = page.getByText("The server does not respond. If kvlab dashboard has ended, start it again.");
    await problem.waitFor();
    await page.evaluate("location.hash = '#/compare?runs=unknown'");
    await problem.waitFor();
  });

  test("a folder of runs that does not exist is named", async () => {
    const missing = join(folder, "typing-error");
    const { dashboard } = await dashboardOver(missing, { page: await bundlePage() });
    const page = await visit(`${dashboard.url}#/runs`);
    await page.getByText(`There is no folder ${missing} yet; it is created when a run is saved.`).waitFor();
  });

  test("only files with the format of a trace are offered", async () => {
    const page = await visit(`${url}#/start`);
    const options = page.getByLabel("Trace", { exact: true }).locator("option");
    await expect.poll(() => options.count()).toBeGreaterThan(0);
    expect(await options.allTextContents()).toEqual(["example", join(traces, "mooncake.jsonl")]);
  });

  test("a double click starts one job", async () => {
    const page = await visit(`${url}#/start?evictions=mru&blocks=50&limit=300`);
    await page.getByText("kvlab replay example").first().waitFor();
    await page.getByRole("button", { name: "Start" }).dblclick();
    const table = page.getByRole("region", { name: "Jobs" }).locator("tbody tr");
    await expect.poll(() => table.count()).toBe(1);
    await page.getByRole("region", { name: "Jobs" }).getByText("done").waitFor();
    expect(await table.count()).toBe(1);
  });

  test("a run that refused every request is marked in the list and on its page", async () => {
    await kvlab(
      "replay",
      "example",
      "--limit",
      "30",
      "--target",
      "sim",
      "--preset",
      "vllm",
      "--blocks",
      "2",
      "--out",
      "runs/refused",
    );
    const page = await visit(`${url}#/runs?q=refused`);
    await page.locator(".badge.bad", { hasText: "refused every request" }).waitFor();
    await page.getByRole("link", { name: "refused", exact: true }).click();
    await page.getByText("The run refused every request").waitFor();
    rmSync(join(runs, "refused"), { recursive: true });
  });

  test("settings are shown in words and with units", async () => {
    const page = await visit(`${url}#/run?id=timed`);
    const facts = page.locator("dl.facts");
    await facts.waitFor();
    const text = (await facts.textContent())!;
    expect(text).toContain("swap space4 GiB");
    expect(text).toContain("tensor parallel1");
    expect(text).not.toMatch(/swapSpaceBytes|4294967296/);
  });

  test("a cell that a spreadsheet would compute is saved as text", async () => {
    const name = "=HYPERLINK(1)";
    cpSync(join(runs, "timed"), join(runs, name), { recursive: true });
    const page = await visit(`${url}#/runs?q=HYPERLINK`);
    await page.getByText("1 of ").waitFor();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Runs: save as CSV" }).click(),
    ]);
    expect(readFileSync(await file.path(), "utf8").split("\n")[1]).toMatch(/^'=HYPERLINK\(1\),/);
    rmSync(join(runs, name), { recursive: true });
  });

  test("a long name does not push the other columns off the page", async () => {
    const name = "a-very-long-name-".repeat(12);
    cpSync(join(runs, "timed"), join(runs, name), { recursive: true });
    const page = await visit(`${url}#/runs`);
    await page.getByRole("link", { name }).waitFor();
    const saved = (await page.getByRole("columnheader", { name: "Saved" }).boundingBox())!;
    expect(saved.x + saved.width).toBeLessThanOrEqual(page.viewportSize()!.width);
    await page.goto(`${url}#/compare?runs=${name},timed`);
    await page.getByText("2 selected runs").waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    rmSync(join(runs, name), { recursive: true });
  });
});
