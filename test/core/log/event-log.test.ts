import fc from "fast-check";
import { expect, test } from "vitest";
import { LoggedBlockStates, LoggedState } from "../../../core/log/block-lives.ts";
import { BlockTables } from "../../../core/log/block-tables.ts";
import { EventLog } from "../../../core/log/event-log.ts";
import { sentenceOf } from "../../../core/log/event-text.ts";
import { eventNames } from "../../../core/log/events.ts";
import { RemovalCauses, removalCauseAt } from "../../../core/log/removal-causes.ts";
import { everyKind } from "./every-kind.ts";

test("the last events of a log stay, in order, and the others are counted", () => {
  fc.assert(
    fc.property(fc.nat(eventNames.length + 3), (count) => {
      const log = everyKind();
      const lines = Array.from({ length: log.count }, (_, at) => log.line(at));
      log.keepLast(count);
      const kept = Array.from({ length: log.count }, (_, at) => log.line(at));
      expect(kept).toEqual(lines.slice(Math.max(0, lines.length - count)));
      expect(log.dropped + log.count).toBe(lines.length);
    }),
  );
});

test("the cause of a removal does not depend on where the log is read from", () => {
  const actions = fc.constantFrom("evict", "drop by a request", "drop of an expired entry", "clear", "admit");
  fc.assert(
    fc.property(fc.array(actions, { maxLength: 30 }), (all) => {
      const log = new EventLog();
      for (const [at, action] of all.entries()) {
        if (action === "evict") log.evict(at, 1, 2, 3, 4);
        else if (action === "drop by a request") log.drop(at, 1, 2, 3, 4);
        else if (action === "drop of an expired entry") log.drop(at, -1, 2, 3, 4);
        else if (action === "admit") log.admit(at, 1, 2, 3);
        else {
          // A reset drops every block that was cached.
          log.clear(at, 2);
          log.evict(at, -1, 2, 3, 4);
          log.evict(at, -1, 5, 6, 7);
        }
      }
      const causes = new RemovalCauses();
      for (const event of log.events()) {
        if (event.name === "evict" || event.name === "drop")
          expect(removalCauseAt(log, event.at)).toBe(causes.causeOf(event));
        else if (event.name === "clear") causes.causeOf(event);
      }
    }),
  );
});

test("every kind of event has a sentence of its own", () => {
  const log = everyKind();
  const names = { content: (content: number) => `content ${content}`, blocks: () => "3 prompt blocks" };
  const sentences = Array.from(log.events(), (event) =>
    sentenceOf({ event, users: undefined }, names).replaceAll(/\d+/g, "N"),
  );
  expect(new Set(sentences).size).toBe(eventNames.length);
  expect(sentences[eventNames.indexOf("refuse")]).toBe("request N is refused: it needs more blocks than the cache has");
});

test("a request that is refused after its admission has no block table", () => {
  const log = new EventLog();
  log.admit(0, 7, 0, 0);
  log.allocate(0, 7, 3, 0);
  log.refuse(1, 7);
  const tables = new BlockTables();
  const counts = Array.from(log.events(), (event) => {
    tables.apply(event);
    return tables.requests().length;
  });
  expect(counts).toEqual([1, 1, 0]);
});

test("a block that replaces a duplicate is referenced, also if it was idle", () => {
  const log = new EventLog();
  log.publish(0, 1, 0, 5, 0);
  log.release(0, 1, 0, true);
  log.duplicate(1, 2, 1, 0, 0);
  const states = new LoggedBlockStates();
  states.grow(2);
  const life = Array.from(log.events(), (event) => {
    states.apply(event);
    return states.life[0];
  });
  expect(life).toEqual([LoggedState.referenced, LoggedState.idle, LoggedState.referenced]);
});
