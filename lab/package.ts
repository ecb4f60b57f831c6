import { readFileSync } from "node:fs";
import { dirname, relative } from "node:path";

/** From source this module is one folder below the package; built, and in a bundle of the program, two. */
const fromSource = import.meta.url.endsWith(".ts");

const described: { readonly version: string; readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(new URL(fromSource ? "../package.json" : "../../package.json", import.meta.url), "utf8"),
);

/** The version in package.json. */
export const { version } = described;

/** The packages that the program needs. */
export const libraries: readonly string[] = Object.keys(described.dependencies);

/** The module that `import … from "kvlab"` means in a user's own policy: this very program's. */
export const entryUrl = new URL(fromSource ? "../index.ts" : "../index.js", import.meta.url).href;

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
