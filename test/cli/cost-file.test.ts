import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { json, kvlab, newFolder } from "./program.ts";

test("a run is reproduced from its folder, also with replicas that executed no step", async () => {
  const folder = newFolder();
  const trace = join(folder, "trace.jsonl");
  const request = (timestamp: number) => ({ timestamp, input_length: 600, output_length: 3, hash_ids: [1, 2] });
  writeFileSync(trace, `${JSON.stringify(request(0))}\n${JSON.stringify(request(10))}\n`);
  const replay = ["replay", trace, "--target", "sim", "--json"];
  const run = join(folder, "run");
  const { latency, cluster } = await json(folder, [...replay, "--replicas", "4", "--out", run]);
  expect(cluster.replicas.map(({ steps }: { steps: number }) => steps > 0)).toEqual([true, true, false, false]);
  const again = await json(folder, [...replay, "--replicas", "4", "--cost", run, "--no-save"]);
  expect([again.latency, again.cluster]).toEqual([latency, cluster]);
  // The third request has no recorded step.
  writeFileSync(trace, `${[0, 10, 20].map((at) => JSON.stringify(request(at))).join("\n")}\n`);
  expect((await kvlab(folder, [...replay, "--replicas", "4", "--cost", run, "--no-save"])).stderr).toMatch(
    /: replica 2: step 0 is past the 0 recorded steps\n$/,
  );
});
