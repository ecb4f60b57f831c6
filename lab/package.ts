import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The nearest folder above this module that has a package.json: in a checkout, in a package, and in a bundle. */
const packageFolder = (() => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
})();

const described: { readonly version: string; readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(packageFolder, "package.json"), "utf8"),
);

/** The version in package.json. */
export const { version } = described;

/** The packages that the program needs. */
export const libraries: readonly string[] = Object.keys(described.dependencies);

/** The module that `import … from "kvlab"` means in a user's own policy: this very program's. */
export const entryUrl = pathToFileURL(
  join(packageFolder, import.meta.url.endsWith(".ts") ? "index.ts" : "dist/index.js"),
).href;

/** How the user calls the program: through npm in a checkout, also from outside of it, or by its name. */
export function calledAs(): string {
  const { INIT_CWD, npm_lifecycle_event: script, npm_package_name: name, npm_package_json: file } = process.env;
  if (name !== "kvlab" || script !== "kvlab") return "kvlab";
  const root = file && dirname(file);
  const inside = !root || !INIT_CWD || !/^\.\.|^\//.test(relative(root, INIT_CWD));
  return inside
    ? "npm run -s kvlab --"
    : `npm --prefix ${/^[\w./-]+$/.test(root) ? root : `'${root}'`} run -s kvlab --`;
}
