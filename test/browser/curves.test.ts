import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { json, newFolder } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

const folder = newFolder();
let url = "";

describe.runIf(hasBrowser)("saved curves in a browser", () => {
  beforeAll(async () => {
    const args = ["example", "--limit", "300", "--blocks", "500,2000,4000", "--eviction", "lru,fifo", "--bound"];
    await json(folder, ["curve", ...args, "--out", "runs/saved"]);
    const orders = ["--rule", "free-order=reverse,forward"];
    const listed = ["example", "--limit", "300", "--blocks", "500,2000", "--eviction", "lru,mru", ...orders];
    await json(folder, ["compare", ...listed, "--out", "runs"]);
    await json(folder, ["curve", ...listed, "--out", "runs/banded"]);
    const { dashboard } = await dashboardOver(join(folder, "runs"), { page: await bundlePage() });
    url = dashboard.url;
  }, 60_000);

  test("are drawn with a line for each policy and the definition of the hit ratio that is selected", async () => {
    const page = await visit(url);
    await page.goto(`${url}#/curves?id=saved`);
    const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
    for (const name of ["lru", "fifo", "bound"]) await figure.getByText(name, { exact: true }).waitFor();
    await page.getByLabel("Hit ratio definition").selectOption("fullBlock");
    await figure.getByText("bound", { exact: true }).waitFor({ state: "detached" });
    expect(page.url()).toContain("metric=fullBlock");
    expect(await violations(page)).toEqual([]);
  });

  test.each(["curves?id=banded", "compare?metric=block"])(
    "#/%s has a line and a band for each policy",
    async (view) => {
      const page = await visit(`${url}#/${view}`);
      const figure = page.locator("figure", { hasText: "Hit ratio by cache size" });
      for (const name of ["lru", "mru"]) await figure.getByText(name, { exact: true }).waitFor();
      expect(await figure.locator("g[fill-opacity='0.18'] > path").count()).toBe(2);
      await figure.getByText("lines: the mean").waitFor();
      expect(await violations(page)).toEqual([]);
    },
  );
});
