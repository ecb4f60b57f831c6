import fc from "fast-check";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { contentIds } from "../../laws/workloads.ts";

interface Draft {
  /** Which earlier request it goes on from, with its answer or not, and how much of it. */
  readonly from: number;
  readonly answered: boolean;
  readonly kept: number;
  /** Waits for the one that it goes on from, where the trace says such things. */
  readonly isTurn: boolean;
  readonly added: readonly number[];
  readonly answer: readonly number[];
  readonly spare: number;
  readonly gapNs: number;
  readonly session: number;
  readonly thinkMs: number;
  readonly priority: number;
  readonly retentionMs: number;
  readonly marked: number;
  readonly namespace: number;
}

/** Tokens of an alphabet so small that prompts meet by chance, too. */
const tokens = (minLength: number, maxLength: number) =>
  fc.array(fc.nat(3), { minLength, maxLength, size: "max" as const });

const millisecond = 1e6;

/** Longer prompts show nothing that these do not. */
const mostUnits = 32;

const anyDraft = (longestAnswer: number): fc.Arbitrary<Draft> =>
  fc.record({
    from: fc.nat(7),
    answered: fc.boolean(),
    kept: fc.oneof({ withCrossShrink: true }, fc.nat(24), fc.constant(mostUnits), fc.constant(0)),
    isTurn: fc.boolean(),
    added: fc.oneof({ arbitrary: tokens(0, 8), weight: 2 }, { arbitrary: fc.constant([]), weight: 1 }),
    answer: fc.oneof({ arbitrary: tokens(0, longestAnswer), weight: 3 }, { arbitrary: tokens(0, 1), weight: 1 }),
    spare: fc.nat(3),
    // Bursts, arrivals that fall on the end of a step of a millisecond, and any.
    gapNs: fc.oneof(
      { withCrossShrink: true },
      { arbitrary: fc.constant(0), weight: 3 },
      { arbitrary: fc.constant(millisecond), weight: 1 },
      { arbitrary: fc.nat(4 * millisecond), weight: 1 },
    ),
    session: fc.nat(3),
    thinkMs: fc.nat(2),
    priority: fc.nat(2),
    retentionMs: fc.nat(3),
    marked: fc.nat(12),
    namespace: fc.constantFrom(0, 0, 0, 1, 2),
  });

/**
 * A trace of a few requests, most of which go on from an earlier one, stop in the middle of it or ask the same again.
 * Token ids (the trace says what was answered), or content ids of two tokens.
 */
export const fuzzTraces = ({ maxRequests = 12, longestAnswer = 16 } = {}): fc.Arbitrary<Trace> =>
  fc
    .record({
      unitTokens: fc.constantFrom(1, 1, 2),
      spaces: fc.boolean(),
      turns: fc.boolean(),
      drafts: fc.array(anyDraft(longestAnswer), { minLength: 1, maxLength: maxRequests, size: "max" }),
    })
    .map(traceOf);

interface Drafts {
  readonly unitTokens: number;
  /** Whether the trace has namespaces, and turns that wait for others. */
  readonly spaces: boolean;
  readonly turns: boolean;
  readonly drafts: readonly Draft[];
}

function traceOf({ unitTokens, spaces, turns, drafts }: Drafts): Trace {
  const builder = new TraceBuilder(unitTokens);
  const ids = new Map<string, number>();
  const sessions = new Map<number, number>();
  const prompts: number[][] = [];
  const said: number[][] = [];
  let arrivalNs = 0;
  drafts.forEach((one, row) => {
    const { from, answered, kept, added, answer, marked, namespace } = one;
    const before = row === 0 ? [] : (answered ? said : prompts)[from % row];
    const prompt = [...before.slice(0, kept), ...added].slice(0, mostUnits * unitTokens);
    if (prompt.length === 0) prompt.push(0);
    prompts.push(prompt);
    said.push(unitTokens === 1 ? [...prompt, ...answer] : prompt);
    if (row > 0) arrivalNs += one.gapNs;
    const session = numbered(sessions, one.session);
    builder.add({
      arrivalNs,
      inputTokens: prompt.length,
      outputTokens: answer.length,
      maxOutputTokens: answer.length + one.spare,
      keys: unitTokens === 1 ? prompt : contentIds(prompt, unitTokens, ids),
      thinkNs: one.thinkMs * millisecond,
      priority: one.priority,
      retentionNs: one.retentionMs * millisecond,
      markedTokens: Math.min(marked, prompt.length),
      ...(unitTokens === 1 && { generatedKeys: answer }),
      ...(session > 0 && { session }),
      ...(spaces && { namespace }),
      ...(turns && { parent: one.isTurn && row > 0 ? from % row : -1 }),
    });
  });
  return builder.take();
}

/** Sessions count from 1 in the order in which they begin, as readers number them; 0 is none. */
function numbered(known: Map<number, number>, session: number): number {
  if (session === 0) return 0;
  if (!known.has(session)) known.set(session, known.size + 1);
  return known.get(session)!;
}
