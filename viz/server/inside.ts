import type { Stats } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";

/** A file or folder that is inside a given folder, also when links are followed. */
export interface Inside {
  /** With links resolved. */
  readonly path: string;
  readonly size: number;
  readonly mtimeMs: number;
  /** Changes when the content does. */
  readonly version: string;
}

/** Whether a name can be that of a direct child that is not hidden. */
export const isChildName = (name: string) =>
  name !== "" && name.length <= 255 && !name.startsWith(".") && !/[/\\\0]/.test(name);

/**
 * The child `name` of `folder`, whose own path has no links.
 *
 * @returns undefined if there is none, if it is of another kind, or a link that leads out of the folder
 */
export async function childOf(folder: string, name: string, kind: "file" | "folder"): Promise<Inside | undefined> {
  if (!isChildName(name)) return undefined;
  try {
    const path = await realpath(join(folder, name));
    if (!path.startsWith(folder.endsWith(sep) ? folder : folder + sep)) return undefined;
    const found = await stat(path);
    if (!(kind === "file" ? found.isFile() : found.isDirectory())) return undefined;
    const { size, mtimeMs } = found;
    return { path, size, mtimeMs, version: versionText(found) };
  } catch {
    return undefined;
  }
}

/** The version of a file that has been found by `childOf` before; "" if there is none any more. */
export async function versionOf(path: string): Promise<string> {
  try {
    return versionText(await stat(path));
  } catch {
    return "";
  }
}

const versionText = ({ ino, size, mtimeMs }: Stats) => `${ino} ${size} ${mtimeMs}`;
