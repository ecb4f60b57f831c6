import fc from "fast-check";
import {
  rowOf,
  type Trace,
  TraceBuilder,
  type TraceContent,
  type TraceRow,
  type TraceSource,
} from "../../core/trace/trace.ts";

const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const nanos = fc.maxSafeInteger().map(Math.abs);

const somePrompt = fc.record({
  gapNs: fc.oneof(fc.nat(3), fc.integer({ min: 0, max: 2 ** 40 })),
  /** The prompt shares a number of leading keys with an earlier request. */
  like: fc.nat(),
  sharedKeys: fc.nat({ max: 6 }),
  ownKeys: fc.nat({ max: 3 }),
  token: fc.integer({ min: 0, max: 2 ** 31 - 10 }),
  lastTokens: fc.nat(),
  outputTokens: fc.nat(5),
  roomTokens: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2 ** 30 })),
  session: fc.nat({ max: 3 }),
});

const someColumns = fc.record(
  {
    namespace: fc.oneof(fc.nat(2), uint32),
    parent: fc.nat(),
    thinkNs: nanos,
    priority: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    retentionNs: nanos,
    category: uint32,
    markedTokens: fc.nat(),
    tool: fc.nat(3),
    nextUseNs: nanos,
    nextUseSteps: uint32,
    keepNs: nanos,
    sessionEnd: fc.nat(2),
  },
  { requiredKeys: [] },
);

/** Columns that all rows of a trace have or lack, so that a trace has any combination of them. */
const presentColumns = fc.subarray([
  "namespace",
  "session",
  "parent",
  "thinkNs",
  "priority",
  "retentionNs",
  "category",
  "markedTokens",
  "tool",
  "nextUseNs",
  "nextUseSteps",
  "keepNs",
  "sessionEnd",
] as const);

/** Any valid trace with this content, in batches of any size. */
export function anyTrace(content: TraceContent): fc.Arbitrary<Trace> {
  const unit = content === "tokens" ? fc.constant(1) : fc.integer({ min: 2, max: 1000 });
  return fc
    .tuple(
      fc.array(fc.tuple(somePrompt, someColumns), { minLength: 1, maxLength: 20 }),
      content === "lengths" ? fc.constant(1) : unit,
      presentColumns,
      fc.boolean(),
    )
    .map(([rows, unitTokens, present, hasOutput]) => {
      const builder = new TraceBuilder(unitTokens, 0, { lengthsOnly: content === "lengths" });
      const prompts: number[][] = [];
      const sessions = [0];
      const tools = [0];
      let arrivalNs = 0;
      let distinct = 0;
      rows.forEach(([prompt, columns], r) => {
        const keys = (prompts[prompt.like % (r + 1)] ?? []).slice(0, prompt.sharedKeys);
        for (let i = keys.length === 0 ? -1 : 0; i < prompt.ownKeys; i++)
          keys.push(content === "tokens" ? prompt.token + i + 1 : distinct++);
        prompts.push(keys);
        if (prompt.session > 0 && !sessions.includes(prompt.session)) sessions.push(prompt.session);
        if (columns.tool !== undefined && !tools.includes(columns.tool)) tools.push(columns.tool);
        const inputTokens = (keys.length - 1) * unitTokens + 1 + (prompt.lastTokens % unitTokens);
        const all: Partial<TraceRow> = {
          ...columns,
          session: sessions.indexOf(prompt.session),
          parent: r === 0 || columns.parent === undefined ? -1 : columns.parent % r,
          ...(columns.tool !== undefined && { tool: tools.indexOf(columns.tool) }),
          ...(columns.markedTokens !== undefined && { markedTokens: columns.markedTokens % (inputTokens + 1) }),
        };
        builder.add({
          ...Object.fromEntries(Object.entries(all).filter(([name]) => present.includes(name as never))),
          arrivalNs: (arrivalNs += prompt.gapNs),
          inputTokens,
          outputTokens: prompt.outputTokens,
          maxOutputTokens: prompt.outputTokens + prompt.roomTokens,
          keys: content === "lengths" ? [] : keys,
          ...(content === "tokens" &&
            hasOutput && { generatedKeys: Array.from({ length: prompt.outputTokens }, (_, i) => prompt.token + i) }),
        });
      });
      return builder.take();
    });
}

/** A source with the rows of a trace, in batches of at most `batchRequests`. */
export function sourceOf(trace: Trace, content: TraceContent, batchRequests = 3): TraceSource {
  return {
    format: "test",
    files: [],
    content,
    async *batches() {
      const builder = new TraceBuilder(trace.unitTokens, 0, trace);
      for (let r = 0; r < trace.requestCount; r++) {
        builder.add(rowOf(trace, r));
        if (builder.requestCount === batchRequests) yield builder.take();
      }
      if (builder.requestCount > 0) yield builder.take();
    },
  };
}
