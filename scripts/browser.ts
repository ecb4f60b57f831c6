import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Program names of chromium and chrome. */
const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/** Their locations on macOS, which are not in PATH. */
const applications = ["Chromium", "Google Chrome"].map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`);

/**
 * The browser for tests and screenshots: the path in CHROMIUM, or else the first one in PATH; undefined: none, or `CHROMIUM=none`.
 *
 * @throws Error if CHROMIUM is not the path of a program
 */
export function findBrowser({ CHROMIUM: named, PATH = "" }: NodeJS.ProcessEnv): string | undefined {
  if (named === "none") return undefined;
  if (named) {
    if (isProgram(named)) return named;
    throw new Error(`CHROMIUM is "${named}", which is not a program; expected the path of chromium or chrome, or none`);
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
