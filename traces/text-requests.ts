import { counted, grouped } from "../core/counted.ts";
import { type Trace, TraceBuilder, type TraceRow } from "../core/trace/trace.ts";
import type { Notes } from "./format.ts";
import type { TextTokenizer, Tokens } from "./tokenize.ts";

/** A request of a text trace before tokenization. Lengths are in tokens. */
export interface TextRequest {
  /** Texts that are tokenized one by one; the prompt is their tokens, one after the other. */
  readonly prompt: readonly string[];
  /** Text of the output. Either all requests of a trace have it or none. */
  readonly output?: string | undefined;
  /** Length of the output, for a trace without its text. */
  readonly outputTokens?: number;
  /** The lengths that the file states, to compare with those that the tokenizer counts. */
  readonly statedInputTokens?: number | undefined;
  readonly statedOutputTokens?: number | undefined;
  readonly maxOutputTokens?: number | undefined;
  readonly session?: number;
  readonly namespace?: number;
  /** Number of the tool that it calls, from 1. */
  readonly tool?: number;
}

/** Requests of one record of a file. */
export interface TextGroup {
  readonly requests: readonly TextRequest[];
}

/** The columns of a request that follow from its text. */
export type TokenizedRequest = Omit<TraceRow, "arrivalNs">;

/** Characters that are tokenized at once. */
const batchCharacters = 1 << 18;
const batchGroups = 1024;

/** Tokenizes the texts of each group. Groups are tokenized in batches of bounded size. */
export async function* encoded<Group>(
  groups: AsyncIterable<Group>,
  textsIn: (group: Group) => readonly string[],
  tokenizer: TextTokenizer,
): AsyncGenerator<{ readonly group: Group; readonly tokens: readonly Tokens[] }> {
  let batch: { readonly group: Group; readonly texts: readonly string[] }[] = [];
  let characters = 0;
  async function* encodedBatch() {
    const ready = batch;
    batch = [];
    characters = 0;
    const tokens = await tokenizer.encode(ready.flatMap(({ texts }) => texts));
    let at = 0;
    for (const { group, texts } of ready) {
      yield { group, tokens: tokens.slice(at, at + texts.length) };
      at += texts.length;
    }
  }
  for await (const group of groups) {
    const texts = textsIn(group);
    batch.push({ group, texts });
    for (const text of texts) characters += text.length;
    if (batch.length === batchGroups || characters >= batchCharacters) yield* encodedBatch();
  }
  yield* encodedBatch();
}

/**
 * Tokenizes requests. Those without a prompt are left out. Stated lengths that differ from the tokenizer's, and the number of
 * requests that are left out, are noted at the end.
 */
export async function* tokenized<Group extends TextGroup>(
  groups: AsyncIterable<Group>,
  tokenizer: TextTokenizer,
  notes: Notes,
): AsyncGenerator<{ readonly group: Group; readonly rows: TokenizedRequest[] }> {
  const counts = new TextCounts(tokenizer);
  const textsIn = ({ requests }: Group) => requests.flatMap(textsOf);
  for await (const { group, tokens } of encoded(groups, textsIn, tokenizer)) {
    const next = tokens.values();
    const rows = group.requests.map((request) => rowOf(request, tokenizer.start, next));
    for (const [i, request] of group.requests.entries()) counts.add(request, rows[i]);
    yield { group, rows: rows.filter((_, i) => hasPrompt(group.requests[i])) };
  }
  counts.note(notes);
}

const textsOf = ({ prompt, output }: TextRequest): readonly string[] =>
  output === undefined ? prompt : [...prompt, output];

const hasPrompt = ({ prompt }: TextRequest) => prompt.some((text) => text !== "");

/** The row of a request, whose tokens are the next ones of `tokens`. */
function rowOf(request: TextRequest, start: Tokens, tokens: Iterator<Tokens>): TokenizedRequest {
  const { prompt, output, outputTokens = 0, maxOutputTokens, session, namespace, tool } = request;
  const keys = joined([start, ...prompt.map(() => tokens.next().value as Tokens)]);
  const generatedKeys = output === undefined ? undefined : (tokens.next().value as Tokens);
  const length = generatedKeys?.length ?? outputTokens;
  return {
    ...{ keys, inputTokens: keys.length, outputTokens: length },
    ...(generatedKeys && { generatedKeys }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens: Math.max(maxOutputTokens, length) }),
    ...(session !== undefined && { session }),
    ...(namespace !== undefined && { namespace }),
    ...(tool !== undefined && { tool }),
  };
}

/** The tokens of the parts, one after the other. */
export function joined(parts: readonly Tokens[]): Tokens {
  const filled = parts.filter(({ length }) => length > 0);
  if (filled.length === 1) return filled[0];
  const all = new Uint32Array(filled.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of filled) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** "3 of 40", for notes. */
export const share = (count: number, of: number) => `${grouped(count)} of ${grouped(of)}`;

/** Differences between stated lengths and those of the tokenizer. */
class Difference {
  stated = 0;
  differing = 0;
  statedTokens = 0;
  countedTokens = 0;

  add(stated: number | undefined, tokens: number): void {
    if (stated === undefined) return;
    this.stated++;
    if (stated !== tokens) this.differing++;
    this.statedTokens += stated;
    this.countedTokens += tokens;
  }

  text(what: string, tokenizer: string): string {
    return (
      `${what} stated in the trace differ from those of ${tokenizer}, which are used: in ${grouped(this.differing)} of ` +
      `${counted(this.stated, "request")}, in total ${grouped(this.statedTokens)} stated and ${grouped(this.countedTokens)} used`
    );
  }
}

class TextCounts {
  readonly #tokenizer: TextTokenizer;
  #requests = 0;
  #withoutPrompt = 0;
  readonly #input = new Difference();
  readonly #output = new Difference();

  constructor(tokenizer: TextTokenizer) {
    this.#tokenizer = tokenizer;
  }

  add(request: TextRequest, row: TokenizedRequest): void {
    this.#requests++;
    if (!hasPrompt(request)) this.#withoutPrompt++;
    else {
      this.#input.add(request.statedInputTokens, row.inputTokens);
      if (request.output !== undefined) this.#output.add(request.statedOutputTokens, row.outputTokens);
    }
  }

  note(notes: Notes): void {
    const { name } = this.#tokenizer;
    if (this.#withoutPrompt > 0)
      notes.add(`requests with an empty prompt are left out: ${share(this.#withoutPrompt, this.#requests)}`);
    if (this.#input.differing > 0) notes.add(this.#input.text("prompt lengths", name));
    if (this.#output.differing > 0) notes.add(this.#output.text("output lengths", name));
  }
}

/** Rows as batches of one trace of token ids, or of lengths. */
export async function* rowBatches(
  rows: AsyncIterable<TraceRow>,
  content: { readonly lengthsOnly?: true } = {},
): AsyncGenerator<Trace> {
  const builder = new TraceBuilder(1, 0, content);
  for await (const row of rows) {
    builder.add(row);
    if (builder.isFull) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** vLLM's and SGLang's benchmarks have the same default. */
const defaultOutputTokens = 256;

/** Output lengths, with a default for requests whose output length is not recorded. */
export class OutputLengths {
  #requests = 0;
  #missing = 0;

  of(tokens: number | undefined | ""): number {
    this.#requests++;
    if (typeof tokens === "number") return tokens;
    this.#missing++;
    return defaultOutputTokens;
  }

  note(notes: Notes): void {
    if (this.#missing === 0) return;
    notes.add(
      `requests without an output length are read with ${defaultOutputTokens} output tokens: ${share(this.#missing, this.#requests)}`,
    );
  }
}
