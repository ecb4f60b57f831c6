import type { KvCache } from "../../core/cache/kv-cache.ts";
import { deletePrefix, evict, pin, reset, unpin } from "../../core/cache/operations.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Nanos, Trace } from "../../core/trace/trace.ts";
import { parseJson } from "../../traces/json-value.ts";
import { readTextFile } from "../../traces/read-text.ts";

/** A line of an operations file. */
export interface Operation {
  readonly before: number;
  readonly operation: keyof typeof operationFields;
  /** The prefix: the first `tokens` tokens of this request's prompt, by default the whole prompt; or the session of this request. */
  readonly like?: number;
  readonly tokens?: number;
  readonly name?: string;
  readonly blocks?: number;
  /** Number of the tool that the session calls; 1 by default. */
  readonly tool?: number;
  /** Nanoseconds from the operation to the next use of the session, or for which the prefix is kept. */
  readonly ns?: number;
  /** Steps of the client's workflow until the next use of the session. */
  readonly steps?: number;
}

/** Required and optional fields of each operation, besides `before`. */
const operationFields = {
  pin: { required: ["like", "name"], optional: ["tokens"] },
  unpin: { required: ["name"], optional: [] },
  delete: { required: ["like"], optional: ["tokens"] },
  evict: { required: ["blocks"], optional: [] },
  reset: { required: [], optional: [] },
  // Signals of clients.
  pause: { required: ["like"], optional: ["tool"] },
  resume: { required: ["like"], optional: [] },
  close: { required: ["like"], optional: [] },
  expect: { required: ["like"], optional: ["ns", "steps"] },
  keep: { required: ["like", "ns"], optional: ["tokens"] },
  drop: { required: ["like"], optional: [] },
} as const;

/** Numbers of tools and steps are columns of 32 bits in a trace. */
const largest: Readonly<Record<string, number>> = { tool: 2 ** 32 - 1, steps: 2 ** 32 - 1 };

/** The operations of a file, in order. */
export interface OperationsFile {
  readonly operations: readonly Operation[];
  /** By operation: file and line. */
  readonly places: readonly string[];
}

/** An operation and its result. */
export interface OperationResult extends Operation {
  readonly result: string;
}

/** Reads a file of operations, JSON lines. @throws InputError with file, line, what was found and what was expected. */
export async function readOperations(file: string): Promise<OperationsFile> {
  const text = await readTextFile(file);
  const operations: Operation[] = [];
  const places: string[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    places.push(`${file}:${i + 1}`);
    operations.push(parsed(line, file, i + 1));
  }
  if (operations.length === 0) throw new InputError(`${file}: is empty, expected operations as JSON lines`);
  const late = operations.findIndex(({ before }, i) => i > 0 && before < operations[i - 1].before);
  if (late >= 0)
    throw new InputError(
      `${places[late]}: before is ${operations[late].before}, expected at least ${operations[late - 1].before} as in the operation above`,
    );
  return { operations, places };
}

/** @throws InputError if an operation names a request, or tokens of a prompt, that the trace does not have */
export function checkOperations({ operations, places }: OperationsFile, trace: Trace): void {
  const { requestCount, inputTokens } = trace;
  for (const [i, { before, like = 0, tokens = 0 }] of operations.entries()) {
    for (const [name, request] of Object.entries({ before, like }))
      if (request >= requestCount)
        throw new InputError(`${places[i]}: ${name} is ${request}, the trace has ${requestCount} requests, from 0`);
    if (tokens > inputTokens[like])
      throw new InputError(
        `${places[i]}: tokens is ${tokens}, expected at most ${inputTokens[like]}, the prompt of request ${like}`,
      );
  }
}

function parsed(line: string, file: string, number: number): Operation {
  const where = `${file}:${number}`;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new InputError(`${where}: is not JSON, expected an object such as {"before": 10, "operation": "reset"}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new InputError(`${where}: is ${JSON.stringify(value)}, expected an object`);
  // Refuses a name that occurs twice, of which JSON.parse uses the last.
  const bytes = Buffer.from(line);
  parseJson(bytes, 0, bytes.length, { file, line: number });
  checkFields(value as Record<string, unknown>, where);
  return value as Operation;
}

function checkFields(found: Record<string, unknown>, where: string): void {
  const names = Object.keys(operationFields);
  const { operation } = found;
  if (typeof operation !== "string" || !names.includes(operation)) {
    const near = typeof operation === "string" ? nearest(operation, names) : undefined;
    const expected = near ? `did you mean "${near}"?` : `expected one of ${names.join(", ")}`;
    throw new InputError(`${where}: operation is ${JSON.stringify(operation)}, ${expected}`);
  }
  const { required, optional } = operationFields[operation as Operation["operation"]];
  const all: string[] = ["before", "operation", ...required, ...optional];
  const missing = ["before", ...required].find((name) => found[name] === undefined);
  if (missing) throw new InputError(`${where}: ${operation} has no ${missing}, expected ${all.join(", ")}`);
  if (operation === "expect" && found["ns"] === undefined && found["steps"] === undefined)
    throw new InputError(`${where}: expect has neither ns nor steps, expected at least one of them`);
  for (const [name, field] of Object.entries(found)) {
    if (!all.includes(name)) throw new InputError(`${where}: ${operation} has ${name}, expected ${all.join(", ")}`);
    if (name !== "operation") checkField(name, field, where);
  }
}

function checkField(name: string, field: unknown, where: string): void {
  const isText = name === "name";
  const least = name === "before" || name === "like" || name === "ns" ? 0 : 1;
  const most = largest[name];
  const isRight = isText
    ? typeof field === "string" && field !== ""
    : Number.isSafeInteger(field) && Number(field) >= least && Number(field) <= (most ?? Number.MAX_SAFE_INTEGER);
  const range = most === undefined ? `from ${least}` : `from ${least} to ${most}`;
  const expected = isText ? "a string" : `a whole number ${range}`;
  if (!isRight) throw new InputError(`${where}: ${name} is ${JSON.stringify(field)}, expected ${expected}`);
}

/** Executes the operations of a file in one replay, each before its request. */
export class OperationsPlayer {
  readonly results: OperationResult[] = [];
  /** Operations by request, with their positions in the file. In a closed loop requests arrive in another order. */
  readonly #before = new Map<number, [at: number, operation: Operation][]>();
  readonly #trace: Trace;
  readonly #blocks: BlockColumns;
  readonly #pins = new Map<string, Sequence>();
  readonly #onResult: (result: OperationResult) => void;

  /** The requests of the operations must be in the trace; `onResult` is called after each operation. */
  constructor(
    operations: readonly Operation[],
    trace: Trace,
    blocks: BlockColumns,
    onResult: (result: OperationResult) => void = () => {},
  ) {
    this.#onResult = onResult;
    for (const [at, operation] of operations.entries()) {
      const sameRequest = this.#before.get(operation.before);
      if (sameRequest) sameRequest.push([at, operation]);
      else this.#before.set(operation.before, [[at, operation]]);
    }
    this.#trace = trace;
    this.#blocks = blocks;
  }

  /** Executes the operations before `request`, which arrives now. */
  before(request: number, cache: KvCache, nowNs: Nanos): void {
    for (const [at, operation] of this.#before.get(request) ?? []) {
      const result = { ...operation, result: this.#execute(operation, at, cache, nowNs) };
      this.results.push(result);
      this.#onResult(result);
    }
  }

  #execute(one: Operation, at: number, cache: KvCache, nowNs: Nanos): string {
    const { operation, like, tokens, name, blocks, tool = 1, ns, steps = Number.POSITIVE_INFINITY } = one;
    const untilNs = ns === undefined ? Number.POSITIVE_INFINITY : nowNs + ns;
    switch (operation) {
      case "pin": {
        if (this.#pins.has(name!)) return "there is a pin of that name";
        const prefix = this.#prefix(at, like!, tokens);
        const result = pin(cache, prefix, nowNs);
        if (result === "pinned") this.#pins.set(name!, prefix);
        return result === "over budget"
          ? `over the budget of ${cache.rules["pin-blocks"]} blocks (pin-blocks)`
          : result;
      }
      case "unpin": {
        const prefix = this.#pins.get(name!);
        this.#pins.delete(name!);
        return prefix !== undefined && unpin(cache, prefix, nowNs) ? "unpinned" : "not pinned";
      }
      case "delete":
        return deletePrefix(cache, this.#prefix(at, like!, tokens), nowNs);
      case "evict":
        return `${evict(cache, blocks!, nowNs)} blocks`;
      case "reset":
        return reset(cache, nowNs) ? "reset" : "in use";
      case "pause":
        return cache.sessions.pause(this.#request(like!), tool, nowNs);
      case "resume":
        return cache.sessions.resume(this.#request(like!), nowNs);
      case "close":
        return cache.sessions.close(this.#request(like!), false, nowNs);
      case "drop":
        return cache.sessions.close(this.#request(like!), true, nowNs);
      case "expect":
        return cache.sessions.expect(this.#request(like!), untilNs, steps, nowNs);
      case "keep":
        return cache.sessions.keep(this.#prefix(at, like!, tokens).request, untilNs, nowNs);
    }
  }

  #request(row: number): Request {
    return new Request(row, this.#trace, row, this.#blocks);
  }

  /** A sequence with the leading whole blocks of a request's prompt, which is never scheduled. */
  #prefix(at: number, row: number, tokens?: number): Sequence {
    // Numbers below those of requests, so that a log distinguishes them.
    const request = this.#request(row);
    request.id = -2 - at;
    if (tokens !== undefined && tokens < request.inputTokens) {
      const { blockTokens } = this.#blocks;
      request.promptBlocks = Math.min(request.promptBlocks, Math.floor(tokens / blockTokens));
      request.inputTokens = request.promptBlocks * blockTokens;
    }
    return new Sequence(request);
  }
}
