import fc from "fast-check";
import { type Trace, TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import { contentIds } from "../../laws/workloads.ts";

interface Draft {
  /** The earlier request that this one extends, whether its output is included, and the number of its tokens that are kept. */
  readonly from: number;
  readonly withOutput: boolean;
  readonly kept: number;
  /** True if this request waits for the request that it extends, in a trace with turns. */
  readonly isTurn: boolean;
  readonly added: readonly number[];
  readonly output: readonly number[];
  readonly spare: number;
  readonly gapNs: number;
  readonly session: number;
  readonly thinkMs: number;
  readonly priority: number;
  readonly retentionMs: number;
  readonly marked: number;
  readonly namespace: number;
  readonly signals: Signals;
}

/** What the client states when the request has ended; 0 = nothing. Times are in milliseconds. */
interface Signals {
  readonly tool: number;
  readonly nextUseMs: number;
  readonly nextUseSteps: number;
  readonly keepMs: number;
  readonly sessionEnd: number;
}

const none: Signals = { tool: 0, nextUseMs: 0, nextUseSteps: 0, keepMs: 0, sessionEnd: 0 };

const anySignals: fc.Arbitrary<Signals> = fc.oneof(
  { withCrossShrink: true },
  { arbitrary: fc.constant(none), weight: 1 },
  {
    arbitrary: fc.record({
      tool: fc.nat(2),
      nextUseMs: fc.nat(3),
      nextUseSteps: fc.nat(3),
      keepMs: fc.constantFrom(0, 0, 0, 1, 4),
      sessionEnd: fc.constantFrom(0, 0, 0, 1, 2),
    }),
    weight: 2,
  },
);

/** Tokens of a small alphabet, so that prompts also share prefixes by chance. */
const tokens = (minLength: number, maxLength: number) =>
  fc.array(fc.nat(3), { minLength, maxLength, size: "max" as const });

const millisecond = 1e6;

/** Longer prompts cover no further cases. */
const mostUnits = 32;

const anyDraft = (longestOutput: number): fc.Arbitrary<Draft> =>
  fc.record({
    from: fc.nat(7),
    withOutput: fc.boolean(),
    kept: fc.oneof({ withCrossShrink: true }, fc.nat(24), fc.constant(mostUnits), fc.constant(0)),
    isTurn: fc.boolean(),
    added: fc.oneof({ arbitrary: tokens(0, 8), weight: 2 }, { arbitrary: fc.constant([]), weight: 1 }),
    output: fc.oneof({ arbitrary: tokens(0, longestOutput), weight: 3 }, { arbitrary: tokens(0, 1), weight: 1 }),
    spare: fc.nat(3),
    // Bursts, arrivals at the end of a step of one millisecond, and any others.
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
    signals: anySignals,
  });

/**
 * A trace of a few requests, most of which extend an earlier prompt, share a part of it or repeat it.
 * It has token ids (also of outputs), or content ids of two tokens.
 */
export const fuzzTraces = ({ maxRequests = 12, longestOutput = 16 } = {}): fc.Arbitrary<Trace> =>
  fc
    .record({
      unitTokens: fc.constantFrom(1, 1, 2),
      hasNamespaces: fc.boolean(),
      turns: fc.boolean(),
      hasSignals: fc.boolean(),
      drafts: fc.array(anyDraft(longestOutput), { minLength: 1, maxLength: maxRequests, size: "max" }),
    })
    .map(traceOf);

interface Drafts {
  readonly unitTokens: number;
  /** True if the trace has namespaces, and if it has turns that wait for others. */
  readonly hasNamespaces: boolean;
  readonly turns: boolean;
  /** True if the clients send signals. */
  readonly hasSignals: boolean;
  readonly drafts: readonly Draft[];
}

function traceOf({ unitTokens, hasNamespaces, turns, hasSignals, drafts }: Drafts): Trace {
  const builder = new TraceBuilder(unitTokens);
  const ids = new Map<string, number>();
  const sessions = new Map<number, number>();
  const tools = new Map<number, number>();
  const prompts: number[][] = [];
  const histories: number[][] = [];
  let arrivalNs = 0;
  drafts.forEach((one, row) => {
    const { from, withOutput, kept, added, output, marked, namespace } = one;
    const before = row === 0 ? [] : (withOutput ? histories : prompts)[from % row];
    const prompt = [...before.slice(0, kept), ...added].slice(0, mostUnits * unitTokens);
    if (prompt.length === 0) prompt.push(0);
    prompts.push(prompt);
    histories.push(unitTokens === 1 ? [...prompt, ...output] : prompt);
    if (row > 0) arrivalNs += one.gapNs;
    const session = numbered(sessions, one.session);
    builder.add({
      arrivalNs,
      inputTokens: prompt.length,
      outputTokens: output.length,
      maxOutputTokens: output.length + one.spare,
      keys: unitTokens === 1 ? prompt : contentIds(prompt, unitTokens, ids),
      thinkNs: one.thinkMs * millisecond,
      priority: one.priority,
      retentionNs: one.retentionMs * millisecond,
      markedTokens: Math.min(marked, prompt.length),
      ...(unitTokens === 1 && { generatedKeys: output }),
      ...(session > 0 && { session }),
      ...(hasNamespaces && { namespace }),
      ...(hasSignals && signalColumns(one.signals, numbered(tools, one.signals.tool))),
      ...(turns && { parent: one.isTurn && row > 0 ? from % row : -1 }),
    });
  });
  return builder.take();
}

const signalColumns = ({ nextUseMs, keepMs, ...others }: Signals, tool: number): Partial<TraceRow> => ({
  ...others,
  tool,
  nextUseNs: nextUseMs * millisecond,
  keepNs: keepMs * millisecond,
});

/** Sessions and tools are numbered from 1 in the order of their first requests, as by trace readers; 0 is none. */
function numbered(known: Map<number, number>, drawn: number): number {
  if (drawn === 0) return 0;
  if (!known.has(drawn)) known.set(drawn, known.size + 1);
  return known.get(drawn)!;
}
