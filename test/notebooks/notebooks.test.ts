import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import express from "express";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { commandsOf, makeData, notebooksIn } from "../../scripts/notebooks/data.ts";
import { buildPages } from "../../scripts/notebooks/pages.ts";
import { hasBrowser, violations, visit } from "../browser/browser.ts";
import { kvlab, newFolder } from "../cli/program.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const source = join(root, "notebooks");
const traces = process.env["KVLAB_TRACES"] ?? join(root, "../shared/traces");

/** A copy of the notebooks, where Node finds the libraries of the checkout. */
const copy = join(root, "node_modules/.cache", `kvlab-notebooks-${process.pid}`);
const folder = join(copy, "notebooks");
/** The notebook of recorded runs has no data without them. */
const isPossible = (name: string) => name !== "fidelity" || existsSync(join(traces, "sharegpt"));
const names = notebooksIn(source).filter(isPossible);
const own = "my-traffic";
const timeout = 600_000;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  const isSource = (path: string) => !["data", "dist"].includes(path.slice(source.length + 1));
  cpSync(source, folder, { recursive: true, filter: isSource });
  symlinkSync(join(root, "lab"), join(copy, "lab"));
  const written = newFolder();
  await kvlab(written, ["init", "notebook", own]);
  cpSync(join(written, `${own}.html`), join(folder, `${own}.html`));
  const program = [process.execPath, join(inject("builtProgram"), "dist/cli/main.js")];
  for (const name of [...names, own]) await makeData(name, { folder, traces, isQuick: true, program });
  await buildPages(folder, [...names, own]);
}, timeout);

afterAll(() => rmSync(copy, { recursive: true, force: true }));

/** Serves the pages. */
async function served(): Promise<string> {
  const app = express().use(express.static(join(folder, "dist")));
  const server = app.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

describe.skipIf(!hasBrowser)("the page of", () => {
  test.each([...names, own])(
    "%s has figures with titles and axes, and no error, outside request or accessibility violation",
    async (name) => {
      const url = await served();
      const page = await visit("about:blank", { viewport: { width: 390, height: 844 } });
      const outside: string[] = [];
      page.on("request", (request) => {
        if (!/^(data:|blob:|about:)/.test(request.url()) && !request.url().startsWith(url)) outside.push(request.url());
      });
      await page.goto(`${url}/${name}.html`);
      await page.waitForSelector("figure svg");
      await expect.poll(() => page.locator(".observablehq--running").count()).toBe(0);
      expect(await page.locator(".observablehq--error").allTextContents()).toEqual([]);
      const figures = await page.locator("figure").evaluateAll((all) =>
        all.map((figure) => ({
          title: figure.querySelector("h2")?.textContent,
          caption: figure.querySelector("figcaption")?.textContent,
          labels: figure.querySelectorAll("[aria-label$='axis label']").length,
          marks: figure.querySelectorAll("svg path, svg rect, svg circle").length,
        })),
      );
      expect(figures.length).toBeGreaterThan(0);
      for (const { title, caption, labels, marks } of figures) {
        expect(title, caption ?? "").toMatch(/\w/);
        expect(caption, title ?? "").toMatch(/\w/);
        expect(labels, `axis labels of ${title}`).toBeGreaterThan(0);
        expect(marks, `marks of ${title}`).toBeGreaterThan(2);
      }
      const text = await page.locator("main").innerText();
      expect(text).not.toMatch(/\b(NaN|undefined|Infinity)\b/);
      expect(outside).toEqual([]);
      // The figures of the template are Plot's own, whose groups have labels without a role.
      const found = await violations(page);
      expect(name === own ? found.filter((rule) => !rule.startsWith("aria-prohibited-attr")) : found).toEqual([]);
    },
  );

  test("the gallery links to every notebook", async () => {
    const page = await visit(`${await served()}/index.html`);
    const links = await page.locator("main a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
    expect(links.sort()).toEqual(notebooksIn(source).map((name) => `./${name}.html`));
  });
});

test("the numbers of an experiment in a notebook are those of kvlab experiment", async () => {
  expect(commandsOf(folder, "prefix-groups")).toBe("kvlab experiment prefix-pool --json > prefix-pool.json\n");
  const { stdout } = await kvlab(newFolder(), ["experiment", "prefix-pool", "--json"]);
  expect(readFileSync(join(folder, "data/prefix-groups/prefix-pool.json"), "utf8")).toBe(stdout);
});

test("a missing trace is named with the command that downloads it, and the data stay as they were", async () => {
  const before = readFileSync(join(folder, "data/mooncake/policies.json"), "utf8");
  const options = { folder, traces: newFolder(), isQuick: false, program: [process.execPath] };
  await expect(makeData("mooncake", options)).rejects.toThrow(
    /^mooncake needs .*conversation_trace.jsonl.gz: download it with `kvlab trace fetch mooncake-conversation`/,
  );
  expect(readFileSync(join(folder, "data/mooncake/policies.json"), "utf8")).toBe(before);
});

test("a command that fails ends the notebook with its message, and the data stay as they were", async () => {
  const before = readFileSync(join(folder, "data/roseinfer/simulated.json"), "utf8");
  const options = { folder, traces, isQuick: true, program: ["false"] };
  await expect(makeData("roseinfer", options)).rejects.toThrow(/^the commands of roseinfer ended with 1/);
  expect(readFileSync(join(folder, "data/roseinfer/simulated.json"), "utf8")).toBe(before);
  expect(existsSync(join(folder, `data/roseinfer.${process.pid}.tmp`))).toBe(false);
});
