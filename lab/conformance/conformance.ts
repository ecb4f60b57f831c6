import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Case } from "../../conformance/case.ts";
import type { Verdict } from "../../conformance/run.ts";
import { InputError } from "../../core/errors.ts";
import { type Control, yieldToEvents } from "../control.ts";
import { version } from "../package.ts";

export type { Case, Verdict };

/** A worked case and its verdict. */
export interface RanCase extends Verdict {
  readonly file: string;
  readonly worked: Case;
}

/** Schema conformance/1. */
export interface ConformanceDocument {
  readonly schema: "conformance/1";
  readonly kvlab: string;
  readonly cases: readonly {
    readonly id: string;
    readonly family: string;
    readonly title: string;
    readonly file: string;
    readonly verdict: Verdict["verdict"];
    /** For a case that did not pass: the expected and found values, or the unsupported input. */
    readonly why: string | null;
    /** The operation that decided it, from 1. */
    readonly op: number | null;
  }[];
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** The result of `runConformance`. */
export interface Conformance {
  /** The document that `kvlab conformance --json` prints: schema conformance/1. */
  readonly report: ConformanceDocument;
  readonly cases: readonly RanCase[];
}

/**
 * Runs worked cases: operations on a part of a system, and the results that the system's own tests expect. `paths` are case files
 * or folders of them. A case with unsupported input or without expectations is skipped, never passed.
 *
 * @throws InputError if a file cannot be read as a case; Interrupted
 */
export async function runConformance(
  paths: string | readonly string[],
  { progress, signal }: Control = {},
): Promise<Conformance> {
  // Loaded on demand, since no other command needs them.
  const { parseCase } = await import("../../conformance/case.ts");
  const { runCase } = await import("../../conformance/run.ts");
  const files = (await Promise.all([paths].flat().map(filesOf))).flat();
  const parsed: { file: string; worked: Case }[] = [];
  for (const file of files) {
    progress?.({ doing: `reading ${file}`, done: 0 });
    parsed.push({ file, worked: parseCase(await textOf(file), file) });
  }
  const cases: RanCase[] = [];
  for (const { file, worked } of parsed) {
    await yieldToEvents(signal);
    progress?.({ doing: "running cases", done: cases.length, total: parsed.length });
    cases.push({ file, worked, ...runCase(worked) });
  }
  progress?.({ doing: "running cases", done: cases.length, total: parsed.length });
  return { report: documentOf(cases), cases };
}

/** The file itself, or the case files in a folder. */
async function filesOf(path: string): Promise<string[]> {
  if (path === "") throw new InputError("a FILE is empty, expected a case file or a folder of them");
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => name.endsWith(".json")).sort();
    if (names.length > 0) return names.map((name) => join(path, name));
  } catch (error) {
    throw unreadable(path, error);
  }
  throw new InputError(`${path}: has no .json file, expected case files`);
}

async function textOf(file: string): Promise<string> {
  try {
    if (!(await stat(file)).isFile()) throw new Error("is not a regular file");
    return await readFile(file, "utf8");
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(path: string, error: unknown): InputError {
  const { code, message } = error as NodeJS.ErrnoException;
  const problem = code === "ENOENT" ? "no such file" : `cannot be read (${code ?? message})`;
  return new InputError(`${path}: ${problem}, expected a case file or a folder of them`);
}

function documentOf(ran: readonly RanCase[]): ConformanceDocument {
  const count = (verdict: Verdict["verdict"]) => ran.filter((each) => each.verdict === verdict).length;
  return {
    schema: "conformance/1",
    kvlab: version,
    cases: ran.map(({ file, worked: { id, family, title }, verdict, why, op }) => ({
      id,
      family,
      title,
      file,
      verdict,
      why: why ?? null,
      op: op ?? null,
    })),
    passed: count("passed"),
    failed: count("failed"),
    skipped: count("skipped"),
  };
}
