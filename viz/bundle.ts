import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** The dashboard's page (the response to `/`), and the files that it loads, by name (`app.js` is at `/app.js`). */
export interface Page {
  readonly html: string;
  readonly files: Map<string, PageFile>;
}

interface PageFile {
  /** The content type. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

const types: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The published program has the page built beside it; a checkout builds it anew, in memory. */
export const bundlePage = (): Promise<Page> => (import.meta.url.endsWith(".js") ? readPage(here("page")) : buildPage());

/** Builds the page into a folder, for `bundlePage` of the published program. */
export async function writePage(folder: string): Promise<void> {
  const { html, files } = await buildPage();
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "index.html"), html);
  for (const [name, { bytes }] of files) await writeFile(join(folder, name), bytes);
}

async function buildPage(): Promise<Page> {
  const { outputFiles } = await build({
    entryPoints: { app: here("app/main.ts"), style: here("app/style.css") },
    outdir: here("app"),
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: "es2022",
    logLevel: "error",
  });
  const icon = await readFile(here("app/icon.svg"));
  const files = outputFiles.map(({ path, contents }): [string, Uint8Array] => [
    path.endsWith(".css") ? "style.css" : "app.js",
    contents,
  ]);
  return pageOf(await readFile(here("app/index.html"), "utf8"), [...files, ["icon.svg", icon]]);
}

async function readPage(folder: string): Promise<Page> {
  const names = (await readdir(folder)).filter((name) => name !== "index.html");
  const files = await Promise.all(
    names.map(async (name): Promise<[string, Uint8Array]> => [name, await readFile(join(folder, name))]),
  );
  return pageOf(await readFile(join(folder, "index.html"), "utf8"), files);
}

const pageOf = (html: string, files: readonly (readonly [string, Uint8Array])[]): Page => ({
  html,
  files: new Map(files.map(([name, bytes]) => [name, { type: types[extname(name)], bytes }])),
});
