import { zipf } from "../random.ts";
import { common, count, generator, perSecond, tokens, zipfExponent } from "./generator.ts";
import { documentSigma, Jobs, lengthOf, outputOf, poisson, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

/**
 * Few-shot prompts: every task has fixed examples, and a request is the examples of a task and one question. Requests of a
 * task share the whole blocks of its examples; questions are never repeated.
 */
export const fewShot = generator({
  name: "few-shot",
  about: "questions after the fixed examples of one of several tasks (Zipf)",
  source: "few-shot MMLU and HellaSwag in SGLang (arXiv 2312.07104); GPT-3 (arXiv 2005.14165)",
  parameters: {
    ...common,
    requestsPerS: perSecond("requests per second, a Poisson process", 10),
    tasks: count("number of tasks", 200, 1, 100_000),
    zipf: zipfExponent("tasks"),
    exampleTokens: tokens("mean tokens of a task's examples", 1500),
    questionTokens: tokens("mean tokens of a question", 60),
    outputTokens: tokens("mean output tokens", 20),
  },
  start(values) {
    const { seed, tasks, exampleTokens } = values;
    const random = stream(seed, 1);
    const popular = zipf(random, tasks, values.zipf);
    const examples: Prompt[] = [];
    const examplesOf = (task: number) =>
      (examples[task] ??= new Prompt(undefined, lengthOf(stream(seed, 2, task), exampleTokens, documentSigma)));
    return new Jobs(values.unitTokens, poisson(stream(seed, 3), values.requestsPerS), function* (atNs) {
      const task = popular();
      const shared = examplesOf(task);
      const prompt = shared.extend(lengthOf(random, values.questionTokens));
      const output = outputOf(random, values.outputTokens);
      yield { atNs, prompt, ...output, markedTokens: shared.tokens, category: task + 1, sent: { row: -1 } };
    });
  },
});
