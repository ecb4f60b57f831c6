import { readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { bundlePage } from "../../viz/bundle.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { dashboardOver } from "../viz/dashboard.ts";
import { hasBrowser, violations, visit } from "./browser.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let url = "";

/** Saves what a button offers, and returns the path of the file. */
async function saved(page: Page, button: string): Promise<string> {
  const click = page.getByRole("button", { name: button, exact: true }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), click]);
  const path = join(folder, file.suggestedFilename());
  await file.saveAs(path);
  return path;
}

describe.runIf(hasBrowser)("what is saved from the page", () => {
  beforeAll(async () => {
    const example = ["example", "--limit", "200"];
    await kvlab(folder, ["compare", ...example, "--eviction", "lru,fifo", "--blocks", "100,300", "--out", "runs"]);
    await kvlab(folder, [
      "replay",
      ...example,
      "--target",
      "sim",
      "--preset",
      "vllm",
      "--blocks",
      "500",
      "--out",
      "timed",
    ]);
    renameSync(join(folder, "timed"), join(runs, "timed"));
    url = (await dashboardOver(runs, { page: await bundlePage() })).dashboard.url;
  }, 120_000);

  test("a comparison opens as a file, without a server and without requests, also on a narrow screen and on paper", async () => {
    const page = await visit(`${url}#/compare?workload=example,+200+requests,+cache&metric=block`);
    const path = await saved(page, "Save as HTML");
    expect(path).toMatch(/comparison\.html$/);
    for (const [width, colorScheme] of [
      [1440, "light"],
      [390, "dark"],
    ] as const) {
      const file = await visit("about:blank", {
        viewport: { width, height: 844 },
        colorScheme,
        javaScriptEnabled: true,
      });
      const requests: string[] = [];
      file.on("request", (request) => requests.push(request.url()));
      await file.goto(pathToFileURL(path).href);
      await file.getByRole("heading", { name: "Comparison of 7 runs" }).waitFor();
      expect(requests).toEqual([pathToFileURL(path).href]);
      expect(await file.getByRole("img", { name: "Hit ratio by cache size" }).count()).toBe(1);
      expect(await file.locator("table").first().locator("tbody tr").count()).toBe(7);
      expect(await file.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      expect(await violations(file)).toEqual([]);
      // The width of A4 without its margins, in CSS pixels.
      await file.emulateMedia({ media: "print", colorScheme: "light" });
      await file.setViewportSize({ width: 688, height: 1000 });
      expect(await file.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    }
  });

  test("a figure has its title, the trace and the commands", async () => {
    const page = await visit(`${url}#/compare?workload=example,+200+requests,+cache`);
    await page.getByText("offline optimum").first().waitFor();
    const svg = readFileSync(await saved(page, "Hit ratio by cache size: save as SVG"), "utf8");
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
    expect(texts).toContain("Hit ratio by cache size");
    expect(texts).toContain("example, 200 requests, cache");
    expect(texts.join(" ")).toContain("kvlab replay example --limit 200 --index hash-table --eviction");
    expect(svg.match(/<desc>(.*?)<\/desc>/s)![1].match(/kvlab replay/g)).toHaveLength(7);
    await page.goto(`${url}#/run?id=timed`);
    await page.locator("svg.series path").first().waitFor({ state: "attached" });
    const series = readFileSync(await saved(page, "Time series: save as SVG"), "utf8");
    expect(series.replace(/<\/text><text[^>]*>/g, " ")).toContain("kvlab replay example --limit 200 --preset vllm");
    const png = readFileSync(await saved(page, "Time series: save as PNG"));
    const box = (await page.locator("svg.series").boundingBox())!;
    // Twice the size of the figure on the page, with lines above and below it.
    expect(png.readUInt32BE(16)).toBe(Math.floor(box.width * 2));
    expect(png.readUInt32BE(20)).toBeGreaterThan(box.height * 2 + 80);
  });

  test("a table is saved as Markdown and LaTeX with the texts on the page", async () => {
    const page = await visit(`${url}#/runs?q=fifo`);
    await page.getByText("2 of 8 runs").waitFor();
    const markdown = readFileSync(await saved(page, "Runs: save as Markdown"), "utf8").split("\n");
    expect(markdown[0]).toBe("| Run | Trace | Target | Policy | Cache size, tokens | Hit ratio | Requests | Saved |");
    expect(markdown[2]).toMatch(
      /^\| example-hash-table-fifo-\d+-\w+ \| example \| cache \| hash-table · fifo \| [\d.]+k \| [\d.]+% \| 200 \| /,
    );
    const latex = readFileSync(await saved(page, "Runs: save as LaTeX"), "utf8");
    expect(latex).toContain("\\begin{tabular}{llllrrrr}");
    expect(latex).toMatch(/hash-table \$\\cdot\$ fifo & [\d.]+k & [\d.]+\\% & 200/);
  });
});
