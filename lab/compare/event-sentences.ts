import { counted } from "../../core/counted.ts";
import { type EventNames, type LoggedEvent, sentenceOf } from "../../core/log/event-text.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";

/** The first occurrence of a content id in a trace. Requests and blocks are numbered from 0. */
export interface Occurrence {
  readonly content: number;
  readonly request: number;
  readonly block: number;
  readonly part: "prompt" | "answer";
  readonly fromToken: number;
  readonly toToken: number;
}

/** Describes events in sentences that name content by the request and block of its first occurrence. */
export class EventSentences {
  readonly #trace: Trace;
  readonly #blocks: BlockColumns;
  readonly #names: EventNames = {
    content: (content) => this.#content(content),
    blocks: (request) => counted(this.#blocks.promptBlocks[request], "prompt block"),
  };

  constructor(trace: Trace, blocks: BlockColumns) {
    this.#trace = trace;
    this.#blocks = blocks;
  }

  promptBlocks(request: number): number {
    return this.#blocks.promptBlocks[request];
  }

  occurrence(content: number): Occurrence {
    const { keys, start, promptBlocks, blockTokens } = this.#blocks;
    const at = keys.indexOf(content);
    let request = 0;
    for (let after = promptBlocks.length; after - request > 1; ) {
      const middle = (request + after) >> 1;
      if (start[middle] <= at) request = middle;
      else after = middle;
    }
    const block = at - start[request];
    const inPrompt = block < promptBlocks[request];
    const end = (block + 1) * blockTokens;
    const toToken = inPrompt ? Math.min(end, this.#trace.inputTokens[request]) : end;
    return { content, request, block, part: inPrompt ? "prompt" : "answer", fromToken: block * blockTokens, toToken };
  }

  /** "content 17 (block 4 of request 5's prompt, tokens 64–80)"; a partial last block is not in the trace's blocks. */
  #content(content: number): string {
    return this.#blocks.keys.includes(content) ? `content ${content} (${this.nameOf(content)})` : `content ${content}`;
  }

  /** "block 4 of request 5's prompt, tokens 64–80" */
  nameOf(content: number): string {
    const { request, block, part, fromToken, toToken } = this.occurrence(content);
    return `block ${block} of request ${request}'s ${part === "answer" ? "output" : part}, tokens ${fromToken}–${toToken}`;
  }

  /** An event as a sentence about its request. */
  sentence(event: LoggedEvent): string {
    return sentenceOf(event, this.#names);
  }
}
