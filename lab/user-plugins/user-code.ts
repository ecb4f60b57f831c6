import { InvariantError } from "../../core/errors.ts";
import { pluginHost } from "./host.ts";
import { runningCalls } from "./running-calls.ts";

/** A user's file whose code runs in this program. */
interface UserFile {
  readonly file: string;
  /** The URL that it was imported from; undefined before. */
  url: string | undefined;
}

const files: UserFile[] = [];
let loading: UserFile | undefined;

/** True if plug-in code is loaded, which may have timers that keep the program running. */
export const userCodeRuns = () => files.length > 0;

/**
 * Loads a plug-in file. From then on its output goes to stderr, it cannot end the program, and exceptions outside of any call
 * are reported with its file.
 */
export async function loadUserCode(
  file: string,
  bundle: () => Promise<string>,
): Promise<Readonly<Record<string, unknown>>> {
  if (files.length === 0) pluginHost().prepare();
  const here: UserFile = { file, url: undefined };
  files.push(here);
  const url = await bundle();
  here.url = url;
  loading = here;
  try {
    return await runningCalls.during({ file, describe: () => "top-level code" }, "load", () => import(url));
  } finally {
    loading = undefined;
  }
}

/** Modules of users are imported from data URLs. */
const dataUrl = /data:text\/javascript;base64,[A-Za-z0-9+/=]+/g;
const programUrl = new URL("../..", import.meta.url).href;

/** True if kvlab itself threw an uncaught error. */
export function isOurs(error: unknown): boolean {
  if (error instanceof InvariantError) return true;
  const stack = stackOf(error);
  return stack.includes(programUrl) && !stack.includes("data:text/javascript");
}

function stackOf(error: unknown): string {
  return error instanceof Error && typeof error.stack === "string" ? error.stack : "";
}

/** The plug-in file that threw the error, or all files if it is unknown. */
export function fileOf(error: unknown): string {
  const stack = stackOf(error);
  const seen = files.filter(({ url }) => url !== undefined && stack.includes(url));
  return (loading ? [loading] : seen.length > 0 ? seen : files).map(({ file }) => file).join(" or ");
}

const longest = 300;

/** The message of a thrown value, in one line. */
export function messageOf(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? String(error.message) : String(error);
  } catch {
    text = "";
  }
  for (const { url, file } of files) if (url !== undefined) text = text.replaceAll(url, file);
  const line = text.replace(dataUrl, "a policy").trim().split("\n")[0];
  if (line === "") return "an error without a message";
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
