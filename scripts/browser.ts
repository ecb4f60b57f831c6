import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** As chromium and its kin are called by the systems that have them. */
const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/** Where macOS has them, which is in no PATH. */
const applications = ["Chromium", "Google Chrome"].map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`);

/**
 * The browser that pages are tested and pictured in: what CHROMIUM names, or else the first that is there; `CHROMIUM=none` is none.
 *
 * @throws Error if CHROMIUM names what cannot be run
 */
export function findBrowser({ CHROMIUM: named, PATH = "" }: NodeJS.ProcessEnv): string | undefined {
  if (named === "none") return undefined;
  if (named) {
    if (isProgram(named)) return named;
    throw new Error(`CHROMIUM is ${named}, which is no program; expected the path of chromium or chrome, or none`);
  }
  const folders = PATH.split(delimiter).filter(Boolean);
  return [...names.flatMap((name) => folders.map((folder) => join(folder, name))), ...applications].find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
