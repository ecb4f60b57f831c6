import { rmSync } from "node:fs";

const paths = new Set<string>();
let isRegistered = false;

/** Files and folders that are being written. They are removed when the process exits before `delete`. */
export const unfinished = {
  add(path: string): void {
    if (!isRegistered) process.on("exit", removeAll);
    isRegistered = true;
    paths.add(path);
  },
  delete(path: string): void {
    paths.delete(path);
  },
};

function removeAll(): void {
  for (const path of paths) rmSync(path, { recursive: true, force: true });
}
