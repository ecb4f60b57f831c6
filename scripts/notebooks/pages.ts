import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { config, observable } from "@observablehq/notebook-kit/vite";
import { build, type Plugin } from "vite";

/** Blocks of code that are wider than the page are scrolled with the keyboard. */
const focusable: Plugin = {
  name: "focusable-code",
  transformIndexHtml: { order: "post", handler: (page) => page.replaceAll("<pre", '<pre tabindex="0"') },
};

/** Builds the pages of these notebooks and the gallery into `dist` of their folder, with all that they load. */
export async function buildPages(folder: string, names: readonly string[]): Promise<string> {
  const out = join(folder, "dist");
  const shared = config();
  await build({
    ...shared,
    root: folder,
    configFile: false,
    logLevel: "error",
    plugins: [focusable, observable({ template: fileURLToPath(new URL("template.html", import.meta.url)) })],
    build: {
      outDir: out,
      emptyOutDir: true,
      chunkSizeWarningLimit: 2000,
      rollupOptions: { input: ["index", ...names].map((name) => join(folder, `${name}.html`)) },
    },
  });
  return out;
}
