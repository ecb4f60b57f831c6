import { InvariantError } from "../../core/errors.ts";
import { pluginHost } from "./host.ts";

/** A user's file whose code runs in this program. */
interface UserFile {
  readonly file: string;
  /** What it was imported as, once known. */
  url: string | undefined;
}

/** The file whose import is under way. */
export const fileBeingLoaded = (): string | undefined => loading?.file;

const files: UserFile[] = [];
let loading: UserFile | undefined;

/** Whether code that is not ours is loaded. It may have left timers that keep the program alive. */
export const userCodeRuns = () => files.length > 0;

/**
 * Loads a user's code. From now on it may do what it likes without being taken for the program itself: what it prints
 * goes to stderr, it cannot end the program, and an exception that it throws outside of any call is reported with its file.
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
    return await import(url);
  } finally {
    loading = undefined;
  }
}

/** Modules of users are imported from data URLs. */
const dataUrl = /data:text\/javascript;base64,[A-Za-z0-9+/=]+/g;
const programUrl = new URL("../..", import.meta.url).href;

/** Whether an error that no call catches is one of kvlab itself. */
export function isOurs(error: unknown): boolean {
  if (error instanceof InvariantError) return true;
  const stack = stackOf(error);
  return stack.includes(programUrl) && !stack.includes("data:text/javascript");
}

function stackOf(error: unknown): string {
  return error instanceof Error && typeof error.stack === "string" ? error.stack : "";
}

/** The file that threw it, or all files if that is unknown. */
export function fileOf(error: unknown): string {
  const stack = stackOf(error);
  const seen = files.filter(({ url }) => url !== undefined && stack.includes(url));
  return (loading ? [loading] : seen.length > 0 ? seen : files).map(({ file }) => file).join(" or ");
}

const longest = 300;

/** What was thrown, which may be anything, in one line. */
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
