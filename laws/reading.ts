import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { TraceError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { readTrace, type Trace, type TraceSource } from "../core/trace/trace.ts";
import type { Checker, CheckResult, Finding } from "./check-plugin.ts";
import { type Law, LawBroken, require } from "./law.ts";
import { noHiddenInputs } from "./nondeterminism.ts";

const reads: Law = { name: "reads-the-trace", statement: "it reads the trace file without an error" };
const validRows: Law = {
  name: "valid-rows",
  statement:
    "arrivals are whole nanoseconds in order, every prompt has a key for each unit, a parent is an earlier row",
};
const oneTrace: Law = {
  name: "batches-are-one-trace",
  statement: "all batches have one unit and one numbering: content ids count up from 0 in order of first appearance",
};
const repeats: Law = { name: "determinism", statement: "reading a file again gives the same requests" };
const badLine: Law = {
  name: "bad-line-is-named",
  statement: "a line that is not a request is a TraceError that names the file and the line",
};
const missingFile: Law = {
  name: "missing-file-is-named",
  statement: "a file that does not exist is an error that names it",
};

/** A trace reader as users write it. */
interface Reader {
  readonly name: string;
  open(files: readonly string[], options: object): Pick<TraceSource, "batches"> & Partial<Pick<TraceSource, "content">>;
}

/** Most lines that are replaced, one after the other. */
const mostLines = 20;
const notARequest = "}not a request{";

/** Checks the laws of a trace reader with a file in its format. */
export async function checkReader(reader: Reader, file: string, checker: Checker): Promise<CheckResult> {
  const { sources, describe, advance } = checker;
  const findings: Finding[] = [];
  const sourceOf = (path: string): TraceSource => {
    const opened = reader.open([path], {});
    const { content = "blocks" } = opened;
    return { format: reader.name, files: [path], content, batches: () => opened.batches() };
  };
  /** Reads of clocks and random sources are recorded meanwhile. */
  const read = async <Result>(act: () => Promise<Result>): Promise<Result> => {
    sources.reader = () => "in batches()";
    try {
      return await act();
    } finally {
      sources.reader = () => undefined;
    }
  };
  const attempt = async (laws: readonly Law[], act: () => Promise<string | undefined>): Promise<boolean> => {
    await advance(laws[0].statement);
    let broken: Finding | undefined;
    let untried: string | undefined;
    try {
      untried = await act();
    } catch (error) {
      const law = error instanceof LawBroken ? error.law : laws[0];
      broken = { law, result: "broken", message: error instanceof LawBroken ? error.message : describe(error) };
    }
    for (const law of laws) {
      const found: Finding = { law, result: "holds" };
      if (broken?.law === law) findings.push(broken);
      else findings.push(untried === undefined ? found : { law, result: "not-tried", message: untried });
    }
    return broken === undefined;
  };

  const isRead = await attempt([reads, validRows, oneTrace], async () => {
    await read(() => checkBatches(sourceOf(file)));
    return undefined;
  });
  await attempt([repeats], async () => {
    if (!isRead) return "a law above is broken";
    const first = await read(() => readTrace(sourceOf(file)));
    requireEqual(await read(() => readTrace(sourceOf(file))), first);
    return undefined;
  });
  await attempt([badLine], async () =>
    isRead ? await checkBadLines(sourceOf, file, checker) : "a law above is broken",
  );
  await attempt([missingFile], async () => {
    const missing = join(tmpdir(), "kvlab-no-such-trace");
    const message = await errorOf(sourceOf, missing);
    require(missingFile, message !== undefined, "it read a file that does not exist");
    require(missingFile, describe(message).includes(missing), `it threw: ${describe(message)}`);
    return undefined;
  });
  const uses = sources.uses();
  if (uses.length === 0) findings.push({ law: noHiddenInputs, result: "holds" });
  else findings.push({ law: noHiddenInputs, result: "broken", message: uses.join("; ") });
  return { findings, growth: undefined, indexGrowth: undefined };
}

/** @throws LawBroken at the first row that is not valid after those before it */
async function checkBatches({ batches, content }: TraceSource): Promise<void> {
  let row = 0;
  let lastNs = 0;
  let distinct = 0;
  let unit: number | undefined;
  for await (const batch of batches()) {
    const { requestCount, arrivalNs, inputTokens, keys, keyStart, optional } = batch;
    unit ??= batch.unitTokens;
    require(oneTrace, batch.unitTokens ===
      unit, `a batch has units of ${batch.unitTokens} tokens, those before ${unit}`);
    for (let r = 0; r < requestCount; r++, row++) {
      const now = arrivalNs[r];
      require(validRows, Number.isSafeInteger(now) && now >= lastNs, () =>
        `row ${row} arrives at ${now} ns, expected a whole number from ${lastNs} on`);
      lastNs = now;
      const [from, to] = [keyStart[r], keyStart[r + 1]];
      const expected = content === "lengths" ? 0 : Math.ceil(inputTokens[r] / unit);
      require(validRows, inputTokens[r] > 0 && to - from === expected, () =>
        `row ${row} has ${inputTokens[r]} input tokens and ${to - from} keys, expected ${expected} keys for units of ${unit}`);
      const parent = optional.parent?.[r] ?? -1;
      require(validRows, parent < row, () => `row ${row} has the parent ${parent}, expected an earlier row`);
      for (let at = from; at < to; at++) {
        if (unit > 1)
          require(oneTrace, keys[at] <= distinct, () =>
            `row ${row} has the new content id ${keys[at]}, expected ${distinct}, the next one`);
        distinct = Math.max(distinct, keys[at] + 1);
      }
    }
    require(oneTrace, batch.distinctKeys === distinct, `distinctKeys is ${batch.distinctKeys}, expected ${distinct}`);
  }
  require(reads, row > 0, "it read no request");
}

/** @throws LawBroken if two readings of a file differ */
function requireEqual(again: Trace, first: Trace): void {
  const columns = { ...first, ...first.optional };
  const others: Record<string, unknown> = { ...again, ...again.optional };
  for (const [name, column] of Object.entries(columns)) {
    if (!ArrayBuffer.isView(column)) continue;
    const other = others[name] as ArrayLike<number> | undefined;
    const values = column as unknown as ArrayLike<number>;
    require(repeats, other?.length === values.length, `${name} has ${other?.length} values, expected ${values.length}`);
    for (let i = 0; i < values.length; i++)
      require(repeats, other[i] === values[i], () => `${name}[${i}] is ${other[i]}, expected ${values[i]} as before`);
  }
}

/** What reading a file throws; undefined if it is read. */
async function errorOf(sourceOf: (file: string) => TraceSource, file: string): Promise<unknown> {
  try {
    await readTrace(sourceOf(file));
    return undefined;
  } catch (error) {
    return error ?? "nothing";
  }
}

/** Replaces single lines of the file. Returns the reason if the law cannot be tried. */
async function checkBadLines(
  sourceOf: (file: string) => TraceSource,
  file: string,
  { seed, runs, describe }: Checker,
): Promise<string | undefined> {
  const bytes = await readFile(file);
  const lines = bytes.toString("utf8").split("\n");
  if (bytes.includes(0) || lines.length < 2) return "the file is not text of several lines";
  const folder = await mkdtemp(join(tmpdir(), "kvlab-reader-"));
  const random = seededRandom(seed);
  try {
    const path = join(folder, basename(file));
    const written = lines.flatMap((line, i) => (line.trim() === "" ? [] : [i]));
    for (let left = Math.min(runs, mostLines, written.length); left > 0; left--) {
      const [at] = written.splice(random.below(written.length), 1);
      await writeFile(path, lines.with(at, notARequest).join("\n"));
      const error = await errorOf(sourceOf, path);
      require(badLine, error !== undefined, `it read a file whose line ${at + 1} is "${notARequest}"`);
      const expected = `${path}:${at + 1}`;
      require(badLine, error instanceof TraceError && error.message.includes(expected), () =>
        `with "${notARequest}" in line ${at + 1} it threw: ${describe(error)}; expected a TraceError with ${expected}`);
    }
    return undefined;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
