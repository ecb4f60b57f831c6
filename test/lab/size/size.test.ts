import { expect, test } from "vitest";
import { byScore, type EvictionPlugin, Interrupted, openTrace, type SizeOptions, size } from "../../../index.ts";
import { routerRegistry } from "../../../policies/registry.ts";
import { json, newFolder } from "../../cli/program.ts";

const fewestHits: EvictionPlugin = {
  name: "fewest-hits",
  about: "fewest hits first, then the least recently used",
  source: "test",
  ...byScore("accessCount", "lastAccess", "releaseOrder"),
};

const options: SizeOptions = {
  ...{ gpu: ["l40s"], tp: [1], maxGpus: 8, rate: 40, limit: 100, capacity: [2 ** 31] },
  slo: { ttftMs: 500, percentiles: { ttftMs: 90 } },
};

test("size gives the document of its command, and reports its progress", async () => {
  const doing = new Set<string>();
  const { report } = await size("example", { ...options, progress: (progress) => doing.add(progress.doing) });
  const args = ["size", "example", "--limit", "100", "--gpu", "l40s", "--tp", "1", "--max-gpus", "8", "--rate", "40"];
  expect(await json(newFolder(), [...args, "--capacity", "2GiB", "--slo", "ttft=500ms:p90"])).toEqual(
    JSON.parse(JSON.stringify(report)),
  );
  expect([...doing].filter((each) => each.startsWith("simulation")).length).toBeGreaterThan(1);
});

test("plug-ins are passed as values", async () => {
  const trace = await openTrace("example", { limit: 100 });
  const router = { ...routerRegistry.get("least-loaded"), name: "mine" };
  const { report } = await size(trace, { ...options, eviction: [fewestHits], router: [router] });
  expect(report.answer!.cluster).toMatchObject({ eviction: "fewest-hits", met: true });
  expect(report.clusters.map((each) => each.router)).toContain("mine");
});

test("an aborted signal ends it with Interrupted, before and during the simulations", async () => {
  await expect(size("example", { ...options, signal: AbortSignal.abort() })).rejects.toThrow(Interrupted);
  for (const threads of [1, 2]) {
    const stop = new AbortController();
    const progress = ({ doing }: { readonly doing: string }) => {
      if (doing.startsWith("simulation")) stop.abort();
    };
    const call = size("example", { ...options, threads, progress, signal: stop.signal });
    await expect(call).rejects.toThrow(Interrupted);
    expect(stop.signal.aborted).toBe(true);
  }
});
