import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { InputError } from "../../core/errors.ts";
import type { OnlineRequest, RequestEnd } from "../../engine/online-engine.ts";
import { jsonIds, jsonLine, optionalJson } from "../../traces/writer.ts";

/**
 * Records the served requests as a trace of token ids, in the order of their arrival: a request is written when it and all before it
 * have ended. Requests that were refused, or cancelled before their first token, are left out.
 */
export class Recorder {
  readonly #path: string;
  readonly #file: WriteStream;
  readonly #failed: (message: string) => void;
  /** Lines of requests that have ended while an earlier one has not. */
  readonly #lines = new Map<number, string>();
  #next = 0;
  #isBroken = false;

  private constructor(path: string, file: WriteStream, failed: (message: string) => void) {
    this.#path = path;
    this.#file = file;
    this.#failed = failed;
    file.on("error", (error: NodeJS.ErrnoException) => this.#break(error));
  }

  /** `failed` is called if the file can no longer be written. @throws InputError if it exists or cannot be created */
  static async open(path: string, failed: (message: string) => void): Promise<Recorder> {
    const file = createWriteStream(path, { flags: "wx" });
    try {
      await once(file, "open");
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new InputError(`--record ${path}: ${code === "EEXIST" ? "exists already" : `cannot be written (${code})`}`);
    }
    return new Recorder(path, file, failed);
  }

  ended(
    request: Pick<OnlineRequest, "prompt" | "maxTokens" | "namespace" | "session" | "priority">,
    output: readonly number[],
    end: RequestEnd,
  ): void {
    this.#lines.set(end.id, end.refused === undefined ? lineOf(request, output, end) : "");
    for (let line = this.#lines.get(this.#next); line !== undefined; line = this.#lines.get(this.#next)) {
      this.#lines.delete(this.#next++);
      if (line !== "" && !this.#isBroken) this.#file.write(line);
    }
  }

  async close(): Promise<void> {
    if (this.#isBroken) return;
    await new Promise<void>((resolve) => this.#file.end(resolve));
  }

  #break({ code }: NodeJS.ErrnoException): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#failed(`--record ${this.#path}: cannot be written (${code}); the server continues without it`);
  }
}

function lineOf(
  { prompt, maxTokens, namespace, session, priority }: Parameters<Recorder["ended"]>[0],
  output: readonly number[],
  { arrivalNs }: RequestEnd,
): string {
  const row = {
    ...{ arrivalNs, inputTokens: prompt.length, outputTokens: output.length, maxOutputTokens: maxTokens, keys: prompt },
    ...(namespace !== undefined && { namespace }),
    ...(session !== undefined && { session }),
    ...(priority !== undefined && { priority }),
  };
  return jsonLine([
    ["input_toks", prompt.length],
    ["output_toks", output.length],
    ["arrival_time_ns", arrivalNs],
    ["input_tok_ids", jsonIds(prompt)],
    ["output_tok_ids", jsonIds(output)],
    ...optionalJson(row),
  ]);
}
