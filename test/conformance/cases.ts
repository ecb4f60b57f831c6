import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Case, parseCase } from "../../conformance/case.ts";

export const ownFolder = fileURLToPath(new URL("cases", import.meta.url));

/** The folder of the cases of the real systems, if this checkout has it. */
export const givenFolder = [
  process.env["KVLAB_CASES"],
  fileURLToPath(new URL("../../../shared/cases", import.meta.url)),
].find((folder) => folder !== undefined && existsSync(folder));

export function casesIn(folder: string): Case[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return files.sort().map((name) => parseCase(readFileSync(join(folder, name), "utf8"), name));
}

export const caseOf = (text: string): Case => parseCase(text, "case.json");
