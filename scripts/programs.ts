import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Folders of a system's servers, which may not be in a user's PATH. */
const serverFolders = ["/usr/sbin", "/usr/local/sbin"];

export const redisPrograms: readonly string[] = ["redis-server", "redis-cli"];
export const slurmPrograms: readonly string[] = ["slurmctld", "slurmd", "munged", "sbatch"];

/** Whether all of these programs are installed. */
export function findPrograms(names: readonly string[]): boolean {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter).filter(Boolean), ...serverFolders];
  return names.every((name) => folders.some((folder) => isProgram(join(folder, name))));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
