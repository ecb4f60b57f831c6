import type { Command } from "commander";
import { blockKeysFor } from "../core/compose.ts";
import { InputError } from "../core/errors.ts";
import { type Trace, TraceBuilder } from "../core/trace.ts";
import { WallClock } from "../engine/clock.ts";
import { openCpuExecutor } from "../engine/cpu/executor.ts";
import { Engine } from "../engine/engine.ts";
import { loadModel } from "../engine/model/load.ts";
import type { SamplingOptions } from "../engine/sampling.ts";
import { partsOf } from "./configuration.ts";
import { breathe } from "./interrupt.ts";
import { decimalNumber, wholeNumber } from "./options.ts";
import { print } from "./print.ts";
import { duration } from "./simulation-summary.ts";
import { colors, counted } from "./table.ts";

interface GenerateOptions {
  readonly model: string;
  readonly maxTokens: number;
  readonly threads?: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly seed: number;
  readonly ignoreEos?: boolean;
}

const examples = `
Examples:
  kvlab generate "Once upon a time"          a model of random weights
  kvlab generate --model ./llama "Once upon a time" --max-tokens 64
  kvlab generate --model ./llama "You are kind. Hi!" "You are kind. Bye!"

Of several prompts, each finds in the cache what it shares with those before it.`;

export function addGenerate(program: Command): void {
  program
    .command("generate")
    .description("text from a real model on the CPU, and how much of each prompt was cached")
    .argument("<PROMPTS...>", "prompts, answered one after the other")
    .option("--model <MODEL>", "a folder in the Hugging Face layout, or random:NAME", "random:tiny")
    .option("--max-tokens <N>", "longest answer", wholeNumber("--max-tokens", 1), 64)
    .option("--threads <N>", "of the model's operators (default: all)", wholeNumber("--threads", 1, 1024))
    .option("--temperature <T>", "0: always the most likely token", decimalNumber("--temperature"), 0)
    .option("--top-k <N>", "only so many of the most likely tokens; 0: all", wholeNumber("--top-k", 0), 0)
    .option("--top-p <P>", "only those that are so likely together", decimalNumber("--top-p"), 1)
    .option("--seed <N>", "for drawing tokens", wholeNumber("--seed", 0, 2 ** 32 - 1), 1)
    .option("--ignore-eos", "go on after the end of the text")
    .addHelpText("after", examples)
    .action(generate);
}

const blockTokens = 16;

async function generate(prompts: readonly string[], options: GenerateOptions): Promise<void> {
  const model = loadModel(options.model);
  const { vocabulary, maxPositions, endTokens } = model.config;
  const codec = await model.tokenizer();
  const encoded: Int32Array[] = [];
  for (const prompt of prompts) {
    const tokens = Int32Array.from(await codec.encode(prompt));
    if (tokens.length === 0) throw new InputError("a PROMPT is empty, expected text");
    if (tokens.length + options.maxTokens > maxPositions)
      throw new InputError(
        `a PROMPT has ${tokens.length} tokens, with ${options.maxTokens} of its answer more than the model's ${maxPositions}`,
      );
    encoded.push(tokens);
  }
  const trace = traceOf(encoded, options.maxTokens);
  const parts = partsOf({}, { "match-limit": "l-1" });
  const blocks = encoded.reduce((sum, { length }) => sum + Math.ceil((length + options.maxTokens) / blockTokens), 0);
  const config = { ...parts, blockTokens, blocks, seed: options.seed };
  const { threads } = options;
  const executor = await openCpuExecutor({ model, blockCount: blocks, blockTokens, ...(threads && { threads }) });
  try {
    const written = encoded.map(() => 0);
    let text = codec.stream();
    const engine = new Engine(trace, blockKeysFor(config, 1).of(trace), {
      ...config,
      executor,
      clock: new WallClock(),
      vocabulary,
      choice: { sampling: samplingOf(options), endTokens: options.ignoreEos ? [] : endTokens },
      written(request, token, isLast) {
        written[request.row]++;
        if (!endTokens.includes(token) || options.ignoreEos) print(text.add(token));
        if (!isLast) return;
        print(`${text.end()}\n`);
        text = codec.stream();
      },
    });
    await engine.run(breathe);
    const { outcomes } = engine.arrivals.batches[0];
    for (const [row, tokens] of encoded.entries()) {
      const { firstTokenNs, finishedNs, admittedNs, hitTokens, refused } = outcomes;
      if (refused[row] === 1)
        throw new InputError(`prompt ${row + 1} was refused: it needs more blocks than there are`);
      const perS = written[row] > 1 ? (written[row] - 1) / ((finishedNs[row] - firstTokenNs[row]) / 1e9) : 0;
      const said =
        `${counted(tokens.length, "prompt token")}, ${hitTokens[row]} of them cached; first token after ` +
        `${duration((firstTokenNs[row] - admittedNs[row]) / 1e6)}, then ${perS.toFixed(0)} tokens/s`;
      process.stderr.write(`${colors.dim(said)}\n`);
    }
  } finally {
    await executor.close();
    model.close();
  }
}

const samplingOf = ({ temperature, topK, topP, seed }: GenerateOptions): SamplingOptions => ({
  temperature,
  topK,
  topP,
  seed,
});

/** All prompts at once; the scheduler serves them one after the other. */
function traceOf(prompts: readonly Int32Array[], maxTokens: number): Trace {
  const builder = new TraceBuilder(1);
  for (const keys of prompts)
    builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: maxTokens, maxOutputTokens: maxTokens, keys });
  return builder.take();
}
