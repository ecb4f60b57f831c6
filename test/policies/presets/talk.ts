import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";

/** A request for the naive models. */
export interface Talk {
  readonly prompt: readonly number[];
  readonly output: readonly number[];
  readonly maxOutputTokens: number;
  /** The tenant; equal content of two tenants is not shared. */
  readonly space: number;
  readonly session: number;
  /** Length of the system prompt, which the user has marked as a prefix. */
  readonly marked: number;
}

/** Every message has new tokens; only repeated messages share them. */
let lastToken = 0;
const message = (length: number): number[] => Array.from({ length }, () => lastToken++);

/** Some of these lengths are whole numbers of blocks of 16, 32 or 64 tokens. */
const systems = [300, 80, 512, 70, 256].map(message);

/** Tokens of each conversation so far; each system prompt is used by two tenants. */
const conversations = Array.from({ length: 10 }, (_, c) => ({
  space: 1 + (c >> 2),
  session: 1 + c,
  system: systems[c % 5],
  rest: [] as number[],
}));

/** The next turn of a conversation, or the last one again (`again`: the same prompt, another output). */
function turn(c: number, userTokens: number, outputed: number, again = false): Talk {
  const one = conversations[c];
  if (!again) one.rest.push(...message(userTokens));
  const prompt = [...one.system, ...one.rest];
  const output = message(outputed);
  if (!again) one.rest.push(...output);
  const { space, session, system } = one;
  return { prompt, output, maxOutputTokens: outputed + 10, space, session, marked: system.length };
}

/** A question without a conversation. */
const question = (userTokens: number, outputed: number, space: number): Talk => ({
  prompt: message(userTokens),
  output: message(outputed),
  maxOutputTokens: outputed,
  space,
  session: 0,
  marked: 0,
});

/** The same request once more. */
const again = (talk: Talk, output = talk.output): Talk => ({ ...talk, output });

/** A prompt whose end was edited: it diverges from cached content inside a block. */
const changed = (talk: Talk, keep: number, userTokens: number): Talk => ({
  ...talk,
  prompt: [...talk.prompt.slice(0, keep), ...message(userTokens)],
  output: message(20),
});

function allTalks(): Talk[] {
  const first = [turn(0, 84, 40), turn(1, 33, 100), turn(5, 84, 40), turn(2, 256, 65), turn(6, 17, 30)];
  const [a, b, c, d, e] = first;
  const exact = question(256, 33, 1);
  const second = [turn(0, 50, 77), again(b), turn(3, 58, 129), exact, turn(4, 256, 1), again(exact), turn(1, 12, 90)];
  const third = [turn(5, 200, 60), changed(d, 530, 46), turn(7, 129, 128), again(a, message(55)), turn(2, 90, 31)];
  const long = question(3000, 100, 2);
  const fourth = [turn(8, 64, 64), turn(0, 31, 140), long, turn(9, 300, 20), again(second[2]), changed(c, 350, 34)];
  const fifth = [turn(6, 250, 40), turn(3, 100, 50), again(exact, message(33)), turn(4, 63, 65), question(700, 50, 3)];
  const sixth = [turn(1, 70, 60), turn(7, 31, 33), again(e), turn(2, 200, 100), turn(8, 1, 64), turn(5, 40, 10)];
  const wide = question(2000, 100, 2);
  const seventh = [
    again(long),
    wide,
    turn(9, 60, 200),
    again(fourth[0]),
    turn(0, 20, 60),
    question(64, 1, 1),
    turn(3, 15, 80),
  ];
  const eighth = [
    changed(fifth[1], 200, 120),
    again(wide),
    turn(6, 90, 30),
    again(sixth[0]),
    turn(4, 129, 60),
    turn(1, 33, 20),
  ];
  return [...first, ...second, ...third, ...fourth, ...fifth, ...sixth, ...seventh, ...eighth];
}

/** Requests of three tenants, in ten conversations with five system prompts and some questions, one after the other. */
export const talks: readonly Talk[] = allTalks();

/** The same as a trace of token ids. */
export function talkTrace(): Trace {
  const builder = new TraceBuilder(1);
  talks.forEach(({ prompt, output, maxOutputTokens, space, session, marked }, r) => {
    builder.add({
      arrivalNs: r,
      inputTokens: prompt.length,
      outputTokens: output.length,
      maxOutputTokens,
      keys: prompt,
      generatedKeys: output,
      namespace: space,
      session,
      markedTokens: marked,
    });
  });
  return builder.take();
}
