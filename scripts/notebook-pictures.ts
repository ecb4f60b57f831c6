// Makes the screenshots of docs/notebooks.md from the pages in notebooks/dist: `npx tsx scripts/notebook-pictures.ts` requires chromium.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { preview } from "vite";
import { findBrowser } from "./browser.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const width = 760;

/** The notebooks, and the figure of each that is captured. */
const pictures = [
  { name: "mooncake", figure: 0 },
  { name: "fidelity", figure: 0 },
  { name: "eviction", figure: 4 },
  { name: "sizing", figure: 0 },
];

const executablePath = findBrowser(process.env);
if (!executablePath) throw new Error("needs chromium or chrome");
const server = await preview({ root: join(root, "notebooks"), configFile: false, preview: { port: 0 } });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width, height: 900 }, deviceScaleFactor: 1.5 });
for (const { name, figure } of pictures) {
  await page.goto(`${server.resolvedUrls!.local[0]}${name}.html`);
  await page.locator("figure svg").nth(figure).waitFor();
  const path = join(root, "docs/notebooks", `${name}.png`);
  await page.locator("figure").nth(figure).screenshot({ path });
  console.log(path);
}
await browser.close();
await server.close();
