import { counted } from "../core/counted.ts";
import type { Nanos, Trace, TraceRow } from "../core/trace/trace.ts";
import { RandomArrivals } from "./conversation-times.ts";
import { Notes, type TraceFormat } from "./format.ts";
import { fileRecords, type JsonRecord } from "./json-records.ts";
import { mostTokens } from "./requests.ts";
import { rowBatches, share } from "./text-requests.ts";

/**
 * Results of `vllm bench serve --save-detailed` and of SGLang's `bench_serving --output-details`: an object for each run, with
 * the lengths of its requests and, from newer versions of vLLM, their start times. Several runs follow one another.
 */
export const benchmarkResults: TraceFormat = {
  name: "benchmark-results",
  about:
    "JSON of a benchmark's results: lengths of all requests, and start times (s) where they are there; lengths only",
  source: "vLLM (vllm bench serve --save-detailed), SGLang (bench_serving --output-details)",
  shape: { kinds: ["json-lines", "json-object", "json-array"], needs: ["input_lens", "output_lens"] },
  options: [],
  open(files, { signal }) {
    const notes = new Notes();
    return {
      ...{ format: "benchmark-results", files, content: "lengths", notes: notes.all },
      batches: (): AsyncGenerator<Trace> => rowBatches(rowsOf(files, notes, signal), { lengthsOnly: true }),
    };
  },
};

async function* rowsOf(files: readonly string[], notes: Notes, signal: AbortSignal | undefined) {
  const random = new RandomArrivals();
  let isRandom = false;
  let requests = 0;
  let empty = 0;
  let withoutOutput = 0;
  /** The last arrival, where the next run begins. */
  let lastNs: Nanos = 0;
  for (const file of files)
    for await (const record of fileRecords(file, signal)) {
      const startNs = lastNs;
      const run = runOf(record);
      for (const { afterNs, inputTokens, outputTokens } of run) {
        const arrivalNs: Nanos = afterNs === undefined ? random.next() : startNs + afterNs;
        isRandom ||= afterNs === undefined;
        lastNs = Math.max(lastNs, arrivalNs);
        requests++;
        if (inputTokens === 0) empty++;
        if (outputTokens === 0) withoutOutput++;
        if (inputTokens > 0) yield { arrivalNs: lastNs, inputTokens, outputTokens, keys: [] } satisfies TraceRow;
      }
    }
  if (empty > 0) notes.add(`requests with an empty prompt are left out: ${share(empty, requests)}`);
  if (withoutOutput > 0) notes.add(`requests without output, such as failed ones: ${share(withoutOutput, requests)}`);
  if (isRandom) random.note(notes, "requests arrive");
}

interface Result {
  /** Time since the first start of the run, in nanoseconds; undefined if the file has no times. */
  readonly afterNs: Nanos | undefined;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** The requests of a run, in the order in which they started. */
function runOf(record: JsonRecord): Result[] {
  const inputs = record.numbers("input_lens", (length) => isLength(length), `integers from 0 to ${mostTokens}`);
  const outputs = record.numbers("output_lens", (length) => isLength(length), `integers from 0 to ${mostTokens}`);
  const starts = record.has("start_times")
    ? record.numbers("start_times", (time) => time >= 0 && time < 1e15, "numbers of seconds, 0 or more")
    : undefined;
  for (const [name, list] of [
    ["output_lens", outputs],
    ["start_times", starts],
  ] as const)
    if (list && list.length !== inputs.length)
      throw record.error(`${name} has ${counted(list.length, "value")}, expected ${inputs.length} as in input_lens`);
  const first = starts?.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY) ?? 0;
  const results = inputs.map((inputTokens, i) => ({
    afterNs: starts && Math.round((starts[i] - first) * 1e9),
    inputTokens,
    outputTokens: outputs[i],
  }));
  if (results.some(({ afterNs = 0 }) => afterNs > Number.MAX_SAFE_INTEGER / 4))
    throw record.error("start_times differ by more than 26 days, expected the times of one run");
  return results.sort((a, b) => (a.afterNs ?? 0) - (b.afterNs ?? 0));
}

const isLength = (value: number) => Number.isInteger(value) && value >= 0 && value <= mostTokens;
