import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";

/** A request as a naive reader sees it. */
export interface Talk {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly maxOutputTokens: number;
  /** The tenant; two tenants that say the same share nothing. */
  readonly space: number;
  readonly session: number;
  /** Length of the system prompt, which the user has marked as a prefix. */
  readonly marked: number;
}

/** Nobody says the same token twice, but for who says the same thing. */
let said = 0;
const message = (length: number): number[] => Array.from({ length }, () => said++);

/** Some of these lengths are whole numbers of blocks of 16, 32 or 64 tokens. */
const systems = [300, 80, 512, 70, 256].map(message);

/** What was said so far in each conversation: two tenants have each system prompt. */
const conversations = Array.from({ length: 10 }, (_, c) => ({
  space: 1 + (c >> 2),
  session: 1 + c,
  system: systems[c % 5],
  rest: [] as number[],
}));

/** The next turn of a conversation, or the last one again (`again`: its prompt as it was, another answer). */
function turn(c: number, asked: number, answered: number, again = false): Talk {
  const one = conversations[c];
  if (!again) one.rest.push(...message(asked));
  const prompt = [...one.system, ...one.rest];
  const answer = message(answered);
  if (!again) one.rest.push(...answer);
  const { space, session, system } = one;
  return { prompt, answer, maxOutputTokens: answered + 10, space, session, marked: system.length };
}

/** A question without a conversation. */
const question = (asked: number, answered: number, space: number): Talk => ({
  prompt: message(asked),
  answer: message(answered),
  maxOutputTokens: answered,
  space,
  session: 0,
  marked: 0,
});

/** The same request once more. */
const again = (talk: Talk, answer = talk.answer): Talk => ({ ...talk, answer });

/** A prompt cut short, as after a change of mind: it parts from what is cached inside a block. */
const changed = (talk: Talk, keep: number, asked: number): Talk => ({
  ...talk,
  prompt: [...talk.prompt.slice(0, keep), ...message(asked)],
  answer: message(20),
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
  talks.forEach(({ prompt, answer, maxOutputTokens, space, session, marked }, r) => {
    builder.add({
      arrivalNs: r,
      inputTokens: prompt.length,
      outputTokens: answer.length,
      maxOutputTokens,
      keys: prompt,
      generatedKeys: answer,
      namespace: space,
      session,
      markedTokens: marked,
    });
  });
  return builder.take();
}
