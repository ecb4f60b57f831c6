import { existsSync, readdirSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type Library, openLibrary } from "./library.ts";

/** Major versions of CUDA whose libraries are used, the newest first. */
const versions = [13, 12];

/**
 * Opens a library of the CUDA toolkit, such as "cublas": from the system's search path, a toolkit's folder, or the `nvidia`
 * packages of a Python installation in PATH.
 *
 * @param dependencies libraries of the same folder that it needs; the system does not search that folder
 */
export function openToolkitLibrary(name: string, dependencies: readonly string[] = []): Library | undefined {
  const fileOf = (library: string, version: number) => `lib${library}.so.${version}`;
  const bySystem = openLibrary([...versions.map((version) => fileOf(name, version)), `lib${name}.so`]);
  if (bySystem) return bySystem;
  for (const folder of toolkitFolders())
    for (const version of versions) {
      const path = join(folder, fileOf(name, version));
      if (!existsSync(path)) continue;
      for (const needed of dependencies)
        openLibrary(entriesOf(folder).filter((file) => file.includes(`/lib${needed}.so.${version}`)));
      const library = openLibrary([path]);
      if (library) return library;
    }
  return undefined;
}

/** Folders that may have libraries of the toolkit. */
export function toolkitFolders(env: NodeJS.ProcessEnv = process.env): string[] {
  const toolkits = [env["CUDA_HOME"], env["CUDA_PATH"], "/usr/local/cuda"].filter((folder) => folder !== undefined);
  const pythons = (env["PATH"] ?? "").split(delimiter).filter((folder) => existsSync(join(folder, "python3")));
  const packages = pythons.flatMap((folder) =>
    entriesOf(join(dirname(folder), "lib"))
      .filter((path) => /\/python3\.\d+$/.test(path))
      .flatMap((path) => [join(path, "site-packages/nvidia"), join(path, "dist-packages/nvidia")])
      .flatMap(entriesOf),
  );
  return [...toolkits.map((folder) => join(folder, "lib64")), ...packages.map((folder) => join(folder, "lib"))];
}

const entriesOf = (folder: string): string[] =>
  existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
