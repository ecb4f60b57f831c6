import { readFileSync } from "node:fs";

/** From source the modules are one folder below the package, built ones two. */
const fromSource = import.meta.url.endsWith(".ts");

/** The version in package.json. */
export const version: string = JSON.parse(
  readFileSync(new URL(fromSource ? "../package.json" : "../../package.json", import.meta.url), "utf8"),
).version;

/** The module that `import … from "kvlab"` means in a user's own policy: this very program's. */
export const entryUrl = new URL(fromSource ? "../index.ts" : "../index.js", import.meta.url).href;
