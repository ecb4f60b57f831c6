import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";
import { findBrowser } from "../../scripts/browser.ts";

const executable = findBrowser(process.env);

if (!executable) {
  if (process.env["CI"]) throw new Error("there is no chromium or chrome in PATH, and CI does not go without");
  process.stderr.write("The dashboard is not tested in a browser: there is no chromium or chrome in PATH\n");
}

export const hasBrowser = executable !== undefined;

let browser: Browser | undefined;
const pages: Page[] = [];
/** What any page complained about in its console. */
const complaints: string[] = [];

afterEach(async () => {
  await Promise.all(pages.splice(0).map((page) => page.context().close()));
  expect(complaints.splice(0)).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
});

/** A page of its own, as a visitor opens it. Complaints in its console fail the test. */
export async function visit(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  browser ??= await chromium.launch({ executablePath: executable!, args: ["--no-sandbox"] });
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: "reduce",
    locale: "en-GB",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("console", (message) => {
    // What the server refuses, the page says itself.
    if (/^Failed to load resource.* 4\d\d /.test(message.text()) && message.location().url.includes("/api/")) return;
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  pages.push(page);
  await page.goto(url);
  return page;
}

/** What keeps people from using this page, by axe: each rule that is broken seriously, and where. */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate<{ violations: { id: string; impact: string; nodes: { target: string[] }[] }[] }>(
    "axe.run({ resultTypes: ['violations'] })",
  );
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`);
}
