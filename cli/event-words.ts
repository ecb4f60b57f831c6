import type { BlockColumns } from "../core/content.ts";
import { missReasons } from "../core/counters.ts";
import type { LoggedEvent } from "../core/lockstep.ts";
import type { Trace } from "../core/trace.ts";
import { counted } from "./table.ts";

/** Where in a trace a content comes first. Requests and blocks count from 0. */
export interface Occurrence {
  readonly content: number;
  readonly request: number;
  readonly block: number;
  readonly part: "prompt" | "answer";
  readonly fromToken: number;
  readonly toToken: number;
}

/** Says in words what is in a log, with contents named by the request and the block in which they first occur. */
export class EventWords {
  readonly #trace: Trace;
  readonly #blocks: BlockColumns;

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

  /** "content 17 (block 4 of request 5's prompt, tokens 64–80)"; ends of prompts and answers are in no block of the trace. */
  #content(content: number): string {
    return this.#blocks.keys.includes(content) ? `content ${content} (${this.nameOf(content)})` : `content ${content}`;
  }

  /** "block 4 of request 5's prompt, tokens 64–80" */
  nameOf(content: number): string {
    const { request, block, part, fromToken, toToken } = this.occurrence(content);
    return `block ${block} of request ${request}'s ${part}, tokens ${fromToken}–${toToken}`;
  }

  /** An event as a sentence about its request. */
  sentence(event: LoggedEvent): string {
    if (event.name === "step") return `a step ${this.does(event)}`;
    return `${event.request < 0 ? "an operator" : `request ${event.request}`} ${this.does(event)}`;
  }

  /** What the request does. */
  does({ name, request, block, key, value, cachedBy, usedBy }: LoggedEvent): string {
    const content = () => this.#content(key);
    const past =
      (cachedBy === undefined ? "" : `, cached by request ${cachedBy}`) +
      (usedBy === undefined ? "" : `, last used by request ${usedBy}`);
    switch (name) {
      case "admit": {
        const blocks = this.#blocks.promptBlocks[request];
        return `is admitted with ${value} of its ${counted(blocks, "prompt block")} cached (${counted(key, "token")})`;
      }
      case "hit":
        return `finds its block ${value}, content ${key}${past}; cache block ${block}`;
      case "adopt":
        return `takes its block ${value} from behind a hole, content ${key}${past}, to compute it again in place; cache block ${block}`;
      case "miss":
        return `misses ${content()}: ${missReasons[value]}`;
      case "evict":
        return `evicts ${content()}${past}; cache block ${block}`;
      case "drop":
        return `makes the index forget ${content()}${past}; cache block ${block}`;
      case "allocate":
        return `gets cache block ${block} for its block ${value}`;
      case "copy":
        return `gets cache block ${block}, a copy of cache block ${key}, for its block ${value}`;
      case "step":
        return `computes ${counted(value, "token")} of ${counted(key, "request")}`;
      case "publish":
        return `caches its block ${value}, content ${key}; cache block ${block}`;
      case "duplicate":
        return `gives cache block ${block} up for cache block ${key}, which has the same content, as its block ${value}`;
      case "release":
        return `lets cache block ${block} go, which ${value === 1 ? "stays cached" : "is free then"}`;
      case "finish":
        return `ends after ${counted(key, "generated token")}`;
      case "refuse":
        return "is refused: it needs more blocks than there are";
      case "preempt":
        return "goes back to the queue";
      case "clear":
        return `empties the cache of ${counted(key, "block")}`;
      case "pin":
        return `keeps ${content()}; cache block ${block}`;
      case "unpin":
        return "lets what it kept go";
      case "swapOut":
        return `has its ${counted(key, "token")} moved to the host, ${counted(value, "block")}`;
      case "swapIn":
        return `has ${counted(key, "token")} moved back from the host, ${counted(value, "block")}`;
    }
  }
}
