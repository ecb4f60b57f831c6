import { expect, test } from "vitest";
import { deletePrefix } from "../../core/cache/operations.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { removalCauseAt } from "../../core/log/removal-causes.ts";
import { evictionWith } from "../../core/replica/compose.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { EventHistory } from "../../viz/log/event-history.ts";
import { textOf } from "../../viz/log/event-texts.ts";
import { whyOf } from "../../viz/log/why.ts";
import { letterTrace } from "../support/letters.ts";
import { configOf } from "../support/replays.ts";

/** A replay in which A expires after 60 s, and B is deleted by an operator before request 2. */
function expiringHistory(): EventHistory {
  const trace = { ...letterTrace(["A", "B", "A", "B"]), arrivalNs: Float64Array.from([0, 50e9, 70e9, 80e9]) };
  const config = configOf(trace, {
    eviction: evictionWith(evictionRegistry.get("ttl"), { "ttl-s": 60 }),
    blocks: 4,
    events: true,
  });
  const blocks = CacheReplay.blockKeys(config, trace);
  const replay = new CacheReplay({
    ...config,
    before: (request, cache, now) => {
      if (request !== 3) return;
      const prefix = new Request(1, trace, 1, blocks);
      prefix.id = -2;
      expect(deletePrefix(cache, new Sequence(prefix), now)).toBe("deleted");
    },
  });
  replay.feed(trace, blocks);
  const history = new EventHistory({ blockTokens: 16, blocks: 4 });
  history.append(replay.log!.columns());
  return history;
}

const policy = { eviction: "ttl", leavesOnly: false };

test("an entry that expired is distinguished from one that an operator has deleted", () => {
  const history = expiringHistory();
  const { log } = history;
  const events = Array.from({ length: log.count }, (_, at) => log.eventAt(at));
  const [expired, deleted] = events.filter(({ name }) => name === "drop").map(({ at }) => at);
  expect([removalCauseAt(log, expired), removalCauseAt(log, deleted)]).toEqual(["expiry", "operator"]);
  const [afterExpiry, afterDeletion] = events
    .filter(({ name }) => name === "miss")
    .slice(2)
    .map(({ at }) => at);
  const why = (at: number) => whyOf(history, history.copyAt(at), policy);
  const text = (at: number) => textOf(history, history.copyAt(at)).text;
  expect(text(expired)).toBe(
    "the entry of content 0 expires, cached by request 0, last used by request 0; physical block 0",
  );
  expect(why(expired)).toBe("its entry has expired: no request has used it for 60.0 s");
  expect(why(afterExpiry)).toBe(`its entry expired 10.0 s ago (event ${expired})`);
  expect(text(deleted)).toContain("an operator drops content 1 from the index");
  expect(why(deleted)).toBe("no request references the block");
  expect(why(afterDeletion)).toBe(`it was dropped 0 µs ago for an operator (event ${deleted})`);
});
