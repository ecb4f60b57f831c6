import { once } from "node:events";
import { type Command, Option } from "commander";
import { alternatives } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import type { BackendName } from "../engine/backends.ts";
import { isRandom } from "../engine/model/load.ts";
import { runsFolder } from "../lab/output/save.ts";
import { defaultModel } from "../lab/run/real-engine.ts";
import type { RunningServer, ServeOptions } from "../lab/serve/serve.ts";
import { type WorkerMode, workerModes } from "../lab/serve/worker-modes.ts";
import { addParts, bitsOption, engineTargetOption, parseCapacity, path, wholeNumber } from "./input/options.ts";
import { bytes, namedNumber, share } from "./input/simulation-options.ts";
import { interruption, watchingSignals, withEngine } from "./interrupt.ts";
import { complain, print } from "./output/print.ts";
import { parseRules } from "./replay.ts";

const examples = `
Examples:
  kvlab serve                                   a model with random weights
  kvlab serve --model ./llama --preset vllm --capacity 4GiB
  kvlab serve --model ./qwen --eviction lfu --port 0
  kvlab serve --preset sglang --record served.jsonl --live
  kvlab serve --model ./llama --host 0.0.0.0 --api-key "$KEY"

  curl http://127.0.0.1:8000/v1/completions \\
    -H 'content-type: application/json' \\
    -d '{"prompt": "Once upon a time", "max_tokens": 16}'

The server is reachable from this machine only, unless --host says otherwise.
Ctrl-C refuses new requests and ends the server when those in progress have
ended; a second one ends it at once.`;

interface ServeCommandOptions
  extends Omit<ServeOptions, "apiKeys" | "rules" | "graceMs" | "report" | "target" | "live"> {
  readonly target: BackendName;
  readonly rule?: readonly string[];
  readonly apiKey?: readonly string[];
  readonly grace: number;
  readonly live?: boolean;
}

export function addServe(program: Command): void {
  const command = program
    .command("serve")
    .description("serve a model over an OpenAI-compatible HTTP API, with the cache under any policy")
    .option("--model <MODEL>", `model folder (Hugging Face layout), or random:NAME for random weights`, defaultModel)
    .option("--served-model-name <NAME>", "name of the model for clients (default: that of --model)")
    .addOption(engineTargetOption("serve runs a model"))
    .addOption(bitsOption())
    .option("--threads <N>", "threads of the model's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .optionsGroup("Cache and scheduler:");
  addParts(command)
    .option(
      "--scheduler-option <NAME=N>",
      "option of the scheduler (repeatable; kvlab policies lists them)",
      namedNumber("--scheduler-option"),
    )
    .option("--block-size <TOKENS>", "tokens per block (default: the preset's, or 16)", wholeNumber("--block-size", 1))
    .option("--blocks <N>", "size of the cache in blocks", parseCapacity)
    .option("--capacity <SIZE>", "size of the cache in memory, such as 4GiB (default: 1GiB)", bytes("--capacity", 1))
    .option("--gpu-memory <SHARE>", "share of GPU memory to use (default: 0.9)", share("--gpu-memory"))
    .option("--swap-space <SIZE>", "host memory for swapped-out blocks (default: 4GiB)", bytes("--swap-space", 0))
    .option(
      "--seed <N>",
      "random seed of policies and of requests without one",
      wholeNumber("--seed", 0, 2 ** 32 - 1),
      1,
    )
    .option("--audit", "check all invariants after every step (slow)")
    .option(
      "--record <FILE>",
      "write the served requests to a new file, as a trace of token ids",
      path("--record", "a file"),
    )
    .option("--live", `show the server in a dashboard of ${runsFolder}/`)
    .optionsGroup("HTTP:")
    .option("--host <ADDRESS>", "address to listen at; other than this machine's own needs --api-key", "127.0.0.1")
    .option("--port <N>", "port (0: any free port)", wholeNumber("--port", 0, 65_535), 8000)
    .option("--api-key <KEY>", "key that clients must send (repeatable; default: KVLAB_API_KEY)", apiKey)
    .option(
      "--max-requests <N>",
      "most requests in progress, waiting ones included; further ones get status 429",
      wholeNumber("--max-requests", 1, 100_000),
      1024,
    )
    .option(
      "--sessions <N>",
      "keep the conversations of the N chats with a session_id that were used last",
      wholeNumber("--sessions", 0, 1_000_000),
      0,
    )
    .option("--grace <SECONDS>", "time for requests to end after Ctrl-C", wholeNumber("--grace", 0, 86_400), 30)
    .addOption(
      new Option(
        "--workers <N>",
        "tokenizing and detokenizing in threads of their own (three) or in the server's (one)",
      )
        .default("three")
        .argParser(workerMode),
    )
    .addHelpText("after", examples)
    .action(serve);
}

function apiKey(text: string, before: readonly string[] = []): string[] {
  if (text === "") throw new InputError("--api-key is empty, expected a key");
  return [...before, text];
}

function workerMode(text: string): WorkerMode {
  const mode = workerModes.find((one) => one === text);
  if (mode) return mode;
  throw new InputError(`--workers is "${text}", expected ${alternatives(workerModes)}`);
}

async function serve({ rule, apiKey: keys, grace, live, ...options }: ServeCommandOptions): Promise<void> {
  const report = (message: string) => void complain(message, 0);
  const { KVLAB_API_KEY: key } = process.env;
  // Loaded on demand: no other command needs a server, whose modules reserve address space.
  const { startServer } = await import("../lab/serve/serve.ts");
  await withEngine(async () => {
    const server = await startServer(
      {
        ...options,
        ...(rule && { rules: parseRules(rule) }),
        apiKeys: keys ?? (key ? [key] : []),
        ...(live && { live: { runs: runsFolder, warn: report } }),
        graceMs: grace * 1000,
        report,
      },
      interruption,
    );
    print(`${started(server, options)}\n`);
    // Also with plug-in code, which must return before a signal is handled.
    await watchingSignals(() => untilSignal(server));
  });
}

function started(
  { url, blocks, blockTokens }: RunningServer,
  { model = defaultModel }: { readonly model?: string },
): string {
  const random = isRandom(model) ? ", which generates meaningless text" : "";
  return `${url}  serves ${model}${random}; cache: ${blocks} blocks of ${blockTokens} tokens; Ctrl-C ends it`;
}

/** Ctrl-C is the normal end of a server: exit code 0. */
async function untilSignal(server: RunningServer): Promise<void> {
  const signal = interruption.aborted ? Promise.resolve() : once(interruption, "abort");
  await Promise.race([signal, server.ended]);
  await server.close();
}
