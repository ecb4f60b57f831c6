import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { EventLog } from "../../../core/log/event-log.ts";
import { replay } from "../../../index.ts";
import { writeKvEvents } from "../../../lab/output/kv-event-lines.ts";
import { LogStore } from "../../../lab/output/log-store.ts";
import { writeEvents } from "../../../lab/output/parquet.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-log-store-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function filesOf(name: string, stores: readonly LogStore[]) {
  const path = (file: string) => join(folder, `${name}-${file}`);
  await writeEvents({ path: path("events") }, stores);
  await writeKvEvents({ path: path("kv-events") }, stores);
  return { events: readFileSync(path("events")), kvEvents: readFileSync(path("kv-events"), "utf8") };
}

test("a log whose events are moved to a store while it grows is written as one that was kept whole", async () => {
  const { result } = await replay([], { events: true, blocks: { blocks: 40 }, limit: 12 });
  const [log] = result.logs;
  const { kind, timeNs, request, block, key, value } = log.columns();
  for (const mostEvents of [7, 100]) {
    const growing = new EventLog();
    const moved = new LogStore(mostEvents);
    for (let i = 0; i < log.count; i++) {
      growing.add(kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
      moved.add(growing);
    }
    expect(growing.count).toBeLessThan(mostEvents);
    const whole = () => new LogStore().withRest(log);
    const [one, other] = [await filesOf("moved", [moved.withRest(growing)]), await filesOf("whole", [whole()])];
    expect(one.kvEvents).toBe(other.kvEvents);
    expect(one.events.equals(other.events)).toBe(true);
    const both = await filesOf("both", [moved, whole()]);
    expect(both.kvEvents.split("\n")).toHaveLength(2 * one.kvEvents.split("\n").length - 1);
  }
});
