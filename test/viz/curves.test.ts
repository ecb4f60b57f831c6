import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { CurvesDetail, CurvesList, RunList } from "../../viz/api.ts";
import { json, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
let client: Client;
let report: Awaited<ReturnType<typeof json>>;

beforeAll(async () => {
  const args = ["example", "--limit", "300", "--blocks", "500,2000", "--eviction", "lru,fifo", "--bound"];
  report = await json(folder, ["curve", ...args, "--out", "runs/saved"]);
  mkdirSync(join(folder, "runs/damaged"));
  writeFileSync(join(folder, "runs/damaged/curves.json"), `{"schema":"curve/1"}`);
  client = await dashboardOver(join(folder, "runs"));
});

test("saved curves are listed, and are no runs", async () => {
  const { schema, curves } = await client.get<CurvesList>("/api/curves");
  expect(schema).toBe("curves/1");
  expect(curves).toMatchObject([{ id: "saved", trace: "example", requests: 300 }]);
  expect((await client.get<RunList>("/api/runs")).runs).toEqual([]);
});

test("saved curves have the points of the document", async () => {
  const { curves, blockTokens, isSampled, metric } = await client.get<CurvesDetail>("/api/curves/saved");
  expect({ blockTokens, isSampled, metric }).toEqual({ blockTokens: 16, isSampled: false, metric: "block" });
  expect(report.curves).toMatchObject(curves);
  expect(curves.map(({ eviction }) => eviction)).toEqual(["lru", "fifo", "bound"]);
});

test.each([
  ["damaged", 422, "curves.json: trace: "],
  ["none", 404, "there is no run"],
  ["..%2Fruns", 404, "there is no run"],
])("curves %s are refused in one line", async (id, status, message) => {
  const response = await client.request(`/api/curves/${id}`);
  expect(response.status).toBe(status);
  expect(JSON.parse(response.text).error).toContain(message);
});
