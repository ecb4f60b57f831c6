import { spawnSync } from "node:child_process";

/** g++, which builds the emulated CUDA driver for tests: CXX, or g++ in PATH; undefined: none, or `CXX=none`. */
export function findCompiler(): string | undefined {
  const { CXX = "g++" } = process.env;
  if (CXX === "none") return undefined;
  return spawnSync(CXX, ["--version"], { stdio: "ignore" }).status === 0 ? CXX : undefined;
}
