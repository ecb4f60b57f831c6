import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { EngineBackend } from "../../engine/backend.ts";
import { backendNamed, backendNames } from "../../engine/backends.ts";
import { version } from "../../lab/package.ts";

/** A result by name; nested objects are allowed. */
export type Results = Readonly<Record<string, unknown>>;

/** Prints a line for each result as it is measured, and writes all results to a JSON file after each of them. */
export class Report {
  readonly #file: string;
  readonly #document: Record<string, unknown>;
  readonly #startMs = performance.now();
  readonly #limitMs: number;

  constructor(schema: string, file: string, limitMinutes: number, about: Results) {
    this.#file = file;
    this.#limitMs = 60_000 * limitMinutes;
    this.#document = { schema, kvlab: version, date: new Date().toISOString(), commit: commit(), ...about };
    mkdirSync(dirname(file), { recursive: true });
    this.#write();
  }

  /** Seconds since the start. */
  get seconds(): number {
    return Math.round((performance.now() - this.#startMs) / 10) / 100;
  }

  /** Whether the time limit has passed. */
  get isOver(): boolean {
    return performance.now() - this.#startMs >= this.#limitMs;
  }

  /** Aborted at the time limit. */
  get limit(): AbortSignal {
    return AbortSignal.timeout(Math.max(1, Math.round(this.#limitMs - (performance.now() - this.#startMs))));
  }

  line(text: string): void {
    process.stdout.write(`${this.seconds.toFixed(1).padStart(6)} s  ${text}\n`);
  }

  /** Adds results to the document, or replaces those of the same name. */
  add(results: Results): void {
    Object.assign(this.#document, results, { seconds: this.seconds });
    this.#write();
  }

  #write(): void {
    writeFileSync(this.#file, `${JSON.stringify(this.#document, undefined, 2)}\n`);
  }
}

/** The commit of the sources: of the packed folder, or of the checkout; null if neither is known. */
function commit(): string | null {
  const packed = process.env["KVLAB_COMMIT"];
  if (packed) return packed;
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

/** The options `--name value` of a program. @throws Error if one is unknown or has no value */
export function optionsFrom<Name extends string>(args: readonly string[], names: readonly Name[]) {
  const options: Partial<Record<Name, string>> = {};
  for (let i = 0; i < args.length; i += 2) {
    const name = names.find((each) => args[i] === `--${each}`);
    if (name === undefined || args[i + 1] === undefined)
      throw new Error(`"${args[i]}", expected ${names.map((each) => `--${each} VALUE`).join(", ")}`);
    options[name] = args[i + 1];
  }
  return options;
}

/** The backend of `--target`; by default the last of the list. */
export function backendFrom(name: string = backendNames[backendNames.length - 1]): EngineBackend {
  const backend = backendNamed(name);
  if (backend) return backend;
  throw new Error(`--target is "${name}", expected ${backendNames.join(" or ")}`);
}

/** Three significant digits. */
export const short = (value: number): string => String(Number(value.toPrecision(3)));
