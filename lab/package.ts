import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The nearest folder above this module that has a package.json: in a checkout, in a package, and in a bundle. */
const packageFolder = (() => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
})();

const manifest: { readonly version: string; readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(packageFolder, "package.json"), "utf8"),
);

/** The folder of the operator profiles that the package has. */
export const profilesFolder = join(packageFolder, "sim", "profiles");

/** The version in package.json. */
export const { version } = manifest;

/** The packages that the program depends on. */
export const libraries: readonly string[] = Object.keys(manifest.dependencies);

/** The module that `import … from "kvlab"` resolves to in a plug-in file: that of this program. */
export const entryUrl = pathToFileURL(
  join(packageFolder, import.meta.url.endsWith(".ts") ? "index.ts" : "dist/index.js"),
).href;

/** The executable and the arguments that start the command line of this package in a process of its own. */
export function programOfKvlab(): string[] {
  if (!import.meta.url.endsWith(".ts")) return [process.execPath, join(packageFolder, "dist/cli/main.js")];
  const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
  return [process.execPath, "--import", loader, join(packageFolder, "cli/main.ts")];
}

/** The command that starts this program: npm in a checkout, also from outside it, or `kvlab`. */
export function calledAs(): string {
  const { INIT_CWD, npm_lifecycle_event: script, npm_package_name: name, npm_package_json: file } = process.env;
  if (name !== "kvlab" || script !== "kvlab") return "kvlab";
  const root = file && dirname(file);
  const inside = !root || !INIT_CWD || !/^\.\.|^\//.test(relative(root, INIT_CWD));
  return inside
    ? "npm run -s kvlab --"
    : `npm --prefix ${/^[\w./-]+$/.test(root) ? root : `'${root}'`} run -s kvlab --`;
}
