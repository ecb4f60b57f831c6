import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";

/** All hand-worked counts are for blocks of four tokens. */
export const blockTokens = 4;

/** Token k of message m of conversation c: 1203 is the fourth token of message 2 (an output) of conversation 1. */
const message = (c: number, m: number, length: number) => Array.from({ length }, (_, k) => 1000 * c + 100 * m + k);

interface Turn {
  readonly name: string;
  /** The step at which it arrives, for runs in which requests overlap. */
  readonly step: number;
  readonly prompt: readonly number[];
  readonly output: readonly number[];
}

function traceOf(turns: readonly Turn[]): Trace {
  const builder = new TraceBuilder(1);
  for (const { step, prompt, output } of turns)
    builder.add({
      arrivalNs: step,
      inputTokens: prompt.length,
      outputTokens: output.length,
      keys: prompt,
      generatedKeys: output,
    });
  return builder.take();
}

/*
 * Three conversations with one system prompt of six tokens. The prompt of a turn contains the whole history. C has the same
 * first prompt as A and another output with a common beginning. In blocks (s: the system prompt, lower case: users, upper
 * case: outputs):
 *
 *   block    0     1     2     3     4     5     6     7
 *   A      ssss  ssaa  aaaa  AAAA  AAAA  Aaaa  aAAA  aaaa
 *   C                          └─  AACC  Cccc
 *   B          └─  ssbb  bbbB  BBBB  Bbbb  b
 *
 * Block 3 of A is called a3 in what follows; the turns are A1, A2, A3.
 */
const s = message(0, 0, 6);
const a1 = [...s, ...message(1, 1, 6)];
const outputA1 = message(1, 2, 9);
const a2 = [...a1, ...outputA1, ...message(1, 3, 4)];
const outputA2 = message(1, 4, 3);
const a3 = [...a2, ...outputA2, ...message(1, 5, 4)];
const b1 = [...s, ...message(2, 1, 5)];
const outputB1 = message(2, 2, 6);
const b2 = [...b1, ...outputB1, ...message(2, 3, 4)];
const outputC1 = [...outputA1.slice(0, 2), ...message(3, 2, 3)];
const c2 = [...a1, ...outputC1, ...message(3, 3, 3)];
const one = [9000];

/** Names end in the prompt's length L: 12, 20 and 32 are k·4, 17, 21 and 25 are k·4 + 1. */
export const conversations: readonly Turn[] = [
  { name: "A1, L = 12", step: 0, prompt: a1, output: outputA1 },
  { name: "C1 = A1, L = 12", step: 0, prompt: a1, output: outputC1 },
  { name: "B1, L = 11", step: 1, prompt: b1, output: outputB1 },
  { name: "A1 again, L = 12", step: 5, prompt: a1, output: one },
  // A client that lost the connection resumes with the first five output tokens.
  { name: "A1 resumed, L = 17", step: 8, prompt: [...a1, ...outputA1.slice(0, 5)], output: one },
  { name: "C2, L = 20", step: 9, prompt: c2, output: one },
  { name: "B2, L = 21", step: 10, prompt: b2, output: one },
  { name: "A2, L = 25", step: 12, prompt: a2, output: outputA2 },
  { name: "A2 again, L = 25", step: 14, prompt: a2, output: one },
  { name: "A3, L = 32", step: 18, prompt: a3, output: one },
  { name: "A2 a third time, L = 25", step: 22, prompt: a2, output: one },
  { name: "B1 again, L = 11", step: 23, prompt: b1, output: one },
];
export const conversationTrace = traceOf(conversations);

/** A prompt in letters, each the block of four tokens that is message m of its conversation. */
const lettersOf: Record<string, number[]> = {
  a: message(1, 0, 4),
  b: message(1, 1, 4),
  c: message(1, 2, 4),
  d: message(2, 0, 4),
  p: message(3, 0, 4),
  v: message(4, 0, 4),
  w: message(5, 0, 4),
  x: message(6, 0, 4),
  y: message(7, 0, 4),
  z: message(8, 0, 4),
};
const wordTurn = (word: string, step: number): Turn => ({
  name: word,
  step,
  prompt: [...word].flatMap((letter) => lettersOf[letter]),
  output: one,
});

/** A conversation of two turns, a and ab, whose second turn is sent again twice; the others have one turn. */
export const holes = ["a", "x", "y", "p", "ab", "z", "ab", "y", "p", "w", "v", "ab"];
export const holeTrace = traceOf(holes.map(wordTurn));
/** Names of the contents of `holeTrace`, in order of first appearance. */
export const holeLetters = "axypbzwv";

/** Two first turns with the same beginning ab arrive together; both are sent again at the end. */
export const twins = ["abc", "abd", "x", "y", "abc", "abd"];
export const twinTrace = traceOf(twins.map((word, r) => wordTurn(word, Math.max(0, r - 1))));
