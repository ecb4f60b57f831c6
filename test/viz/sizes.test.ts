import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { RunList, SizeDetail, SizesList } from "../../viz/api.ts";
import { json, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
let client: Client;
let report: Awaited<ReturnType<typeof json>>;

beforeAll(async () => {
  const args = ["example", "--limit", "100", "--gpu", "l40s", "--tp", "1", "--max-gpus", "8", "--rate", "40"];
  report = await json(folder, ["size", ...args, "--slo", "ttft=500ms:p90", "--out", "runs/saved"]);
  mkdirSync(join(folder, "runs/damaged"));
  writeFileSync(join(folder, "runs/damaged/size.json"), `{"schema":"size/1"}`);
  client = await dashboardOver(join(folder, "runs"));
}, 60_000);

test("saved answers are listed, and are no runs", async () => {
  const { schema, sizes } = await client.get<SizesList>("/api/sizes");
  expect(schema).toBe("sizes/1");
  expect(sizes).toMatchObject([{ id: "saved", trace: "example", requests: 100, model: "llama-3.1-8b" }]);
  expect((await client.get<RunList>("/api/runs")).runs).toEqual([]);
});

test("a saved answer has the clusters of the document", async () => {
  const { clusters, currency, arePricesAssumed } = await client.get<SizeDetail>("/api/sizes/saved");
  expect({ currency, arePricesAssumed }).toEqual({ currency: "USD", arePricesAssumed: true });
  expect(clusters.length).toBeGreaterThan(1);
  expect(report.clusters).toMatchObject(clusters);
});

test.each([
  ["damaged", 422, "size.json: trace: "],
  ["none", 404, "there is no run"],
  ["..%2Fruns", 404, "there is no run"],
])("answer %s is refused in one line", async (id, status, message) => {
  const response = await client.request(`/api/sizes/${id}`);
  expect(response.status).toBe(status);
  expect(JSON.parse(response.text).error).toContain(message);
});
