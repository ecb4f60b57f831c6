import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("npm ci does not run ONNX Runtime's install script, which downloads CUDA libraries", () => {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const installed = packages["node_modules/onnxruntime-node"];
  expect(installed.version).toMatch(/^\d/);
  // npm runs only the scripts of packages that have this field in the lock file. An update of the package adds it again.
  expect(installed).not.toHaveProperty(["hasInstallScript"]);
});
