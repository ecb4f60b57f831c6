import { readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ended, json, newFolder, startReporting, untilDoing } from "./program.ts";

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

describe("a timeline", () => {
  interface TraceEvent {
    readonly name: string;
    readonly ph: string;
    readonly pid: number;
    readonly tid?: number;
    readonly id?: number;
    readonly ts: number;
    readonly dur: number;
    readonly args: Record<string, number>;
  }

  test("is Chrome's trace events: spans that end, steps one after the other, and the report's sums", async () => {
    const folder = newFolder();
    const args = "replay --target sim --limit 150 --speed 20 --blocks 200 --replicas 2 --timeline t.json --no-save";
    const report = await json(folder, args.split(" "));
    expect(readdirSync(folder)).toEqual(["t.json"]);
    const { traceEvents } = JSON.parse(readFileSync(join(folder, "t.json"), "utf8"));
    const events = traceEvents as TraceEvent[];
    const those = (ph: string) => events.filter((event) => event.ph === ph);
    expect(new Set(events.map(({ ph }) => ph))).toEqual(new Set(["M", "X", "C", "b", "e"]));
    for (const { ph, ts } of events) if (ph !== "M") expect(ts).toBeGreaterThanOrEqual(0);

    // In the order of time, and of the file for equal times, spans of a request are nested.
    const open = new Map<string, string[]>();
    const spans = events.filter(({ ph }) => ph === "b" || ph === "e").sort((a, b) => a.ts - b.ts);
    for (const { ph, pid, id, name } of spans) {
      const key = `${pid} ${id}`;
      const names = open.get(key) ?? [];
      open.set(key, names);
      if (ph === "b") names.push(name);
      else expect(names.pop()).toBe(name);
    }
    expect([...open.values()].flat()).toEqual([]);

    const key = ({ pid, id, name }: TraceEvent) => `${pid} ${id} ${name}`;
    const startOf = new Map(those("b").map((event) => [key(event), event.ts]));
    expect(startOf.size).toBe(those("b").length);
    expect(those("e")).toHaveLength(startOf.size);
    for (const event of those("e")) expect(event.ts).toBeGreaterThanOrEqual(startOf.get(key(event))!);
    const requestSpans = those("b").filter(({ name }) => name.startsWith("request "));
    expect(requestSpans).toHaveLength(150);
    expect(requestSpans.filter(({ args }) => "refused" in args)).toHaveLength(report.cache.refusedRequests);
    expect(sum(requestSpans.map(({ args }) => args["preemptions"]))).toBe(report.cache.preemptions);

    const replicas = report.cluster.replicas as { steps: number; utilisation: number; requests: number }[];
    replicas.forEach(({ steps, utilisation, requests }, replica) => {
      const own = those("X").filter(({ pid }) => pid === replica);
      expect(own).toHaveLength(steps);
      let end = 0;
      for (const { ts, dur } of own) {
        // Decimal microseconds, exact to the nanosecond.
        expect(ts).toBeGreaterThan(end - 0.001);
        end = ts + dur;
      }
      expect(sum(own.map(({ dur }) => dur)) / (report.throughput.makespanS * 1e6)).toBeCloseTo(utilisation, 6);
      expect(requestSpans.filter(({ pid }) => pid === replica)).toHaveLength(requests);
    });
  });

  test("replaces a file, also through a link, and is the same if plug-in code runs", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "old.json"), "old");
    symlinkSync("old.json", join(folder, "link.json"));
    writeFileSync(join(folder, "mine.ts"), `import { byScore } from "kvlab"; export default { ...byScore("depth") };`);
    const args = "replay --target sim --limit 50 --no-save --timeline link.json --json";
    await json(folder, args.split(" "));
    const text = readFileSync(join(folder, "old.json"), "utf8");
    expect(JSON.parse(text).traceEvents.length).toBeGreaterThan(1000);
    await json(folder, [...args.split(" "), "--eviction", "./mine.ts"]);
    expect(readFileSync(join(folder, "old.json"), "utf8")).toBe(text);
    expect(readdirSync(folder).sort()).toEqual(["link.json", "mine.ts", "old.json"]);
  });

  test.each(["lru", "./mine.ts"])("leaves no partial file after a signal, with %s", async (eviction) => {
    const folder = newFolder();
    writeFileSync(join(folder, "mine.ts"), `import { byScore } from "kvlab"; export default { ...byScore("depth") };`);
    // With an audit after every step the run takes minutes.
    const slow = "--audit --speed 100 --preset sglang --blocks 20000".split(" ");
    const args = ["replay", "--target", "sim", "--timeline", "t.json", "--eviction", eviction, ...slow];
    const child = startReporting(folder, args);
    const end = ended(child);
    await untilDoing(child, "simulating");
    child.kill("SIGINT");
    expect((await end).stdout).toBe("");
    expect(child.exitCode ?? "signal").toBe(eviction === "lru" ? 130 : "signal");
    expect(readdirSync(folder)).toEqual(["mine.ts"]);
  });
});
