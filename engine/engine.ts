import { InputError } from "../core/errors.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import type { Trace } from "../core/trace/trace.ts";
import { type EngineConfig, EngineLoop } from "./engine-loop.ts";

/** Serves a trace in real time. */
export class Engine extends EngineLoop {
  /** @throws InputError if cache and executor disagree on the blocks, or if `checkContents` fails */
  constructor(trace: Trace, columns: BlockColumns, config: EngineConfig) {
    checkContents(trace, columns, config);
    super(config);
    this.feed(trace, columns);
  }

  /** Serves all requests, or until `stop` is called. `between` is awaited after every step. */
  async run(between: () => Promise<void> = async () => {}): Promise<void> {
    await this.serve(between);
    if (!this.isStopped) this.checkAllServed();
  }
}

/** @throws InputError if cached contents could differ from the tokens that the model generates, or have no logits */
export function checkContents(
  trace: Trace,
  columns: BlockColumns,
  { index, rules, choice }: Pick<EngineConfig, "index" | "rules" | "choice">,
): void {
  if (rules["full-hit"] === "stored-logits" && index.unit !== "prompt" && !index.storesNothing)
    throw new InputError(
      `index ${index.name} also matches prompts that were never prefilled as a whole, which have no logits for full-hit=stored-logits`,
    );
  if (columns.generated && trace.optional.generatedKeys && choice?.endTokens)
    throw new InputError(
      "cache-generated=true caches the output tokens of the trace: end tokens cannot decide output lengths",
    );
}
