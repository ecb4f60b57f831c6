import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/** g++, which builds the emulated CUDA driver for tests: CXX, or g++ in PATH; undefined: none, or `CXX=none`. */
export function findCompiler(): string | undefined {
  const { CXX = "g++" } = process.env;
  if (CXX === "none") return undefined;
  return spawnSync(CXX, ["--version"], { stdio: "ignore" }).status === 0 ? CXX : undefined;
}

/** The library of g++'s AddressSanitizer; undefined if it is not installed. */
export function findSanitizer(): string | undefined {
  const compiler = findCompiler();
  if (!compiler) return undefined;
  const path = spawnSync(compiler, ["-print-file-name=libasan.so"], { encoding: "utf8" }).stdout.trim();
  return path.startsWith("/") && existsSync(path) ? path : undefined;
}
