import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";
import { findBrowser } from "../../scripts/browser.ts";

const executable = findBrowser(process.env);

if (!executable) {
  if (process.env["CI"]) throw new Error("no chromium or chrome in PATH; CI requires one");
  process.stderr.write("The browser tests of the dashboard are skipped: no chromium or chrome in PATH\n");
}

export const hasBrowser = executable !== undefined;

let browser: Browser | undefined;
const pages: Page[] = [];
/** Errors and warnings in the consoles of the pages. */
const consoleErrors: string[] = [];

afterEach(async () => {
  await Promise.all(pages.splice(0).map((page) => page.context().close()));
  expect(consoleErrors.splice(0)).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
});

/** Opens a URL in a new browser context. Errors and warnings in its console fail the test. */
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
    // Refused API requests are shown by the page, and so is a server that has ended.
    const isRefusal = /^Failed to load resource.* (4\d\d |net::ERR_)/.test(message.text());
    if (isRefusal && /\/(api\/|icon\.svg$)/.test(message.location().url)) return;
    if (message.type() === "error" || message.type() === "warning") consoleErrors.push(message.text());
  });
  page.on("pageerror", (error) => consoleErrors.push(error.message));
  pages.push(page);
  await page.goto(url);
  return page;
}

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly target: readonly string[] }[];
}

/** Accessibility violations by axe of any impact: the rule, and the elements that break it. */
export const findings = (page: Page): Promise<string[]> => axeTexts(page, () => true);

/** Those that are serious or critical. */
export const violations = (page: Page): Promise<string[]> =>
  axeTexts(page, ({ impact }) => impact === "serious" || impact === "critical");

async function axeTexts(page: Page, isReported: (violation: Violation) => boolean): Promise<string[]> {
  await page.evaluate(axe.source);
  const result = await page.evaluate<{ violations: Violation[] }>("axe.run({ resultTypes: ['violations'] })");
  return result.violations
    .filter(isReported)
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`);
}
