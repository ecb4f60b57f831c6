import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { toolkitFolders } from "../../../engine/cuda/toolkit.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-toolkit-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("libraries of the toolkit are searched in its folder and in the packages of the Python in PATH", () => {
  const packages = join(folder, "lib/python3.12/site-packages/nvidia");
  for (const name of ["bin", "other"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "bin/python3"), "");
  for (const name of ["cu13", "cublas"]) mkdirSync(join(packages, name, "lib"), { recursive: true });
  mkdirSync(join(folder, "lib/perl5"));
  const env = { CUDA_HOME: "/opt/cuda", PATH: [join(folder, "other"), join(folder, "bin"), "/nowhere"].join(":") };
  expect(toolkitFolders(env)).toEqual([
    "/opt/cuda/lib64",
    "/usr/local/cuda/lib64",
    join(packages, "cu13/lib"),
    join(packages, "cublas/lib"),
  ]);
  expect(toolkitFolders({})).toEqual(["/usr/local/cuda/lib64"]);
});
