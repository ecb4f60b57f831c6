import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename } from "node:path";
import { InputError } from "../../core/errors.ts";
import { stopwatch } from "../../engine/clock.ts";
import { replaceFile } from "../../traces/replace-file.ts";
import { Interrupted } from "../control.ts";
import { type Input, openTrace, readingOf } from "../input.ts";
import { commandOf } from "../output/command-line.ts";
import { version } from "../package.ts";
import { ruleTexts } from "../run/run-stream.ts";
import { runTrace } from "../run/run-trace.ts";
import { readingKey } from "./configuration.ts";
import { FileHashes, type InputFile } from "./input-files.ts";
import type { ResolvedOptions } from "./options.ts";
import { ReportFiles, reportsBeside } from "./report-files.ts";
import { parseShard, type Shard, type ShardResult } from "./shard.ts";

export interface ShardOptions {
  /** Folders in which files are looked for that are not in the shard's folder. */
  readonly traces?: readonly string[];
  readonly signal?: AbortSignal | undefined;
}

type KeepReport = (key: string, report: string) => Promise<{ readonly report?: string }>;

/** Runs shards one after the other. The last trace stays in memory. */
export class ShardRuns {
  readonly #hashes = new FileHashes();
  readonly #traces: readonly string[];
  readonly #signal: AbortSignal | undefined;
  #read: { readonly key: string; readonly input: Input } | undefined;

  constructor({ traces = [], signal }: ShardOptions = {}) {
    this.#traces = traces;
    this.#signal = signal;
  }

  /**
   * Reads the shard in a file, writes its reports to a folder, and the list of its results to another file, which has its name only
   * when all are complete.
   */
  async runFile(path: string, output: string): Promise<void> {
    const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      throw new InputError(`${path}: cannot be read (${error.code})`);
    });
    const files = new ReportFiles(reportsBeside(output));
    const result = await this.#run(text, path, async (key, report) => {
      await files.add(key, report);
      return {};
    });
    await files.complete();
    await replaceFile(output, (temporary) => writeFile(temporary, result));
  }

  /**
   * Runs the shard in a text; returns the text of its results with their reports. A configuration that fails has its message as its result.
   *
   * @throws InputError if the shard is of another version, or a file is missing or has other content; Interrupted
   */
  async run(text: string, name: string): Promise<string> {
    return await this.#run(text, name, async (_, report) => ({ report }));
  }

  /** `keep` keeps a report; returns it if the list of results has it. */
  async #run(text: string, name: string, keep: KeepReport): Promise<string> {
    const shard = parseShard(text, name);
    if (shard.kvlab !== version)
      throw new InputError(
        `${name}: is a shard of kvlab ${shard.kvlab}, this is ${version}; expected the same version`,
      );
    const paths = await this.#find(shard, name);
    const results: ShardResult["results"] = [];
    for (const { key, options } of shard.configurations) {
      const elapsedMs = stopwatch();
      try {
        const report = await this.#runOne(shard, paths, options);
        const wallMs = Math.round(elapsedMs());
        results.push({ key, wallMs, ...(await keep(key, report)) });
      } catch (error) {
        if (error instanceof Interrupted || this.#signal?.aborted || isDiskFull(error)) throw error;
        results.push({ key, error: error instanceof Error ? error.message : String(error) });
      }
    }
    return JSON.stringify({ schema: "shard-result/1", host: hostname(), results } satisfies ShardResult);
  }

  /** The text of the report, without times of the machine, and with the paths that the shard has. */
  async #runOne(shard: Shard, paths: readonly string[], options: ResolvedOptions): Promise<string> {
    const input = await this.#input(shard, paths, options);
    const { report } = await runTrace(input, { ...options, signal: this.#signal });
    if (report.interrupted) throw new Interrupted();
    const { wallMs: _, blockRefsPerS: __, ...others } = report;
    const files = shard.trace.map(({ path }) => path);
    const result = { ...others, trace: { ...report.trace, files } };
    const command = commandOf(result, options, ruleTexts(options.rules ?? {}));
    return `${JSON.stringify({ ...result, command }, undefined, 2)}\n`;
  }

  async #input({ trace }: Shard, paths: readonly string[], options: ResolvedOptions): Promise<Input> {
    const key = `${trace.map(({ sha256 }) => sha256).join()} ${readingKey(options)}`;
    if (this.#read?.key !== key) {
      this.#read = undefined;
      const input = await openTrace(paths, { ...readingOf(options), signal: this.#signal });
      this.#read = { key, input };
    }
    return this.#read.input;
  }

  /**
   * Changes to the first folder that has all files with their content: that of the shard, or one of `traces`. Returns the paths of
   * the trace.
   *
   * @throws InputError naming the file that is missing or has other content
   */
  async #find({ folder, trace, inputs }: Shard, name: string): Promise<string[]> {
    const before = process.cwd();
    const problems: string[] = [];
    for (const candidate of [folder, ...this.#traces]) {
      try {
        process.chdir(candidate);
      } catch {
        problems.push(`${candidate}: there is no such folder on this machine`);
        continue;
      }
      try {
        for (const file of inputs) await this.#check(file);
        return await Promise.all(trace.map(async (file) => await this.#traceFile(file)));
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        problems.push(`${candidate}: ${error.message}`);
      }
    }
    process.chdir(before);
    throw new InputError(`${name}: ${problems.join("; ")}; --traces DIR names a folder that has the files`);
  }

  async #check({ path, sha256 }: InputFile): Promise<void> {
    const isPlugin = /\.[cm]?[jt]s$/.test(path);
    const found = await (isPlugin ? this.#hashes.ofPlugin(path) : this.#hashes.of(path));
    if (found !== sha256)
      throw new InputError(
        `${path}: has other content (SHA-256 ${found.slice(0, 12)}…), expected ${sha256.slice(0, 12)}…`,
      );
  }

  /** A trace is found by its path, or by its name alone. */
  async #traceFile({ path, sha256 }: InputFile): Promise<string> {
    try {
      await this.#check({ path, sha256 });
      return path;
    } catch (error) {
      if (basename(path) === path) throw error;
      try {
        await this.#check({ path: basename(path), sha256 });
        return basename(path);
      } catch (other) {
        throw existsSync(basename(path)) ? other : error;
      }
    }
  }
}

export const isDiskFull = (error: unknown): boolean =>
  /\b(ENOSPC|EDQUOT|EFBIG)\b/.test(`${(error as NodeJS.ErrnoException).code} ${(error as Error).message}`);
