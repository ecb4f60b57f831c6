import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import { openTrace } from "../../traces/open.ts";

/** A trace of docs/eviction.md. */
export interface FigureTrace {
  readonly name: string;
  readonly title: string;
  /** Path in the folder of recorded traces; absent: generated. */
  readonly file?: string;
  readonly blockTokens: number;
  readonly limit?: number;
  /** Sessions without start times begin within this time. */
  readonly spreadS?: number;
}

export const figureTraces: readonly FigureTrace[] = [
  {
    name: "mooncake",
    title: "Mooncake conversation trace",
    file: "mooncake/conversation_trace.jsonl.gz",
    blockTokens: 512,
  },
  {
    name: "sharegpt",
    title: "ShareGPT-300",
    file: "sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz",
    blockTokens: 16,
  },
  {
    name: "weka",
    title: "WEKA coding agents, first 3,000 requests",
    file: "weka/weka_710_rle.jsonl.gz",
    blockTokens: 512,
    limit: 3000,
    spreadS: 3600,
  },
  { name: "example", title: "Built-in example, generated chat", blockTokens: 16 },
];

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");

/** Whether the trace is generated or its file is in the folder of recorded traces. */
export const isAvailable = ({ file }: FigureTrace) => file === undefined || existsSync(join(folder, file));

export async function read({ file, limit, spreadS }: FigureTrace): Promise<Trace> {
  if (file === undefined) return readTrace(chatSource(), limit);
  const options = spreadS === undefined ? {} : { sessionSpread: { seconds: spreadS, seed: 1 } };
  return readTrace(await openTrace([join(folder, file)], options), limit);
}
