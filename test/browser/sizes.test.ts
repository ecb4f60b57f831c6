import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { json, newFolder } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

const folder = newFolder();
let url = "";

describe.runIf(hasBrowser)("a saved answer of kvlab size in a browser", () => {
  beforeAll(async () => {
    const args = ["example", "--limit", "100", "--gpu", "l40s", "--tp", "1", "--max-gpus", "8", "--rate", "40"];
    await json(folder, ["size", ...args, "--slo", "ttft=500ms:p90", "--out", "runs/saved"]);
    const { dashboard } = await dashboardOver(join(folder, "runs"), { page: await bundlePage() });
    url = dashboard.url;
  }, 60_000);

  test("has the answer, the clusters by cost with the chosen one marked, and a table", async () => {
    const page = await visit(url);
    await page.getByRole("link", { name: "Sizing" }).click();
    await page.getByText(/^Cheapest cluster that meets the SLO: \d+ × l40s, vllm, /).waitFor();
    const chart = page.locator("figure", { hasText: "Clusters by cost" });
    for (const name of ["chosen", "limit", "cost, USD per hour", "P90 TTFT (logarithmic)"])
      await chart.getByText(name, { exact: true }).waitFor();
    const rows = page.getByRole("region", { name: "Simulated clusters" }).getByRole("row");
    expect(await rows.filter({ hasText: "chosen" }).count()).toBe(1);
    expect(await violations(page)).toEqual([]);
  });
});
