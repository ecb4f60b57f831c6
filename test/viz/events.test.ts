import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import { afterAll, expect, test } from "vitest";
import type { RunList } from "../../viz/api.ts";
import { Events } from "../../viz/server/events.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { dashboardOver } from "./dashboard.ts";

const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close().closeAllConnections();
});

/** A server of events only, each of `bytes` bytes, that pings its clients every `pingMs`. */
async function eventsOf(bytes: number, pingMs: number): Promise<{ events: Events; port: number; server: Server }> {
  const events = new Events({ runs: () => null, jobs: () => "x".repeat(bytes), live: () => [] }, pingMs);
  const app = express();
  app.get("/api/events", (request, response) => events.add(request, response));
  const server = createServer(app);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { events, port: (server.address() as AddressInfo).port, server };
}

/** A client, and the text that it has received so far. */
function listen(port: number): { socket: Socket; received: () => string } {
  let text = "";
  const socket = connect(port, "127.0.0.1", () => {
    socket.write(`GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  });
  socket.setEncoding("utf8").on("error", () => {});
  socket.on("data", (part) => {
    text += part;
  });
  return { socket, received: () => text };
}

const until = async (isSo: () => boolean) => {
  while (!isSo()) await sleep(10);
};
const times = (text: string, event: string) => text.split(`event: ${event}\n`).length - 1;

test("a new run is announced when it is complete", async () => {
  const folder = newFolder();
  await kvlab(folder, ["replay", "--limit", "30", "--out", "elsewhere/one"]);
  const over = await dashboardOver(join(folder, "runs"));
  const { socket, received } = listen(over.port);
  await until(() => received().includes("event: jobs\ndata: []\n\n"));
  await sleep(500);
  expect(times(received(), "runs")).toBe(1);
  cpSync(join(folder, "elsewhere"), join(folder, "runs/.one.17.tmp"), { recursive: true });
  await sleep(500);
  expect(times(received(), "runs")).toBe(1);
  renameSync(join(folder, "runs/.one.17.tmp/one"), join(folder, "runs/one"));
  await until(() => times(received(), "runs") === 2);
  socket.destroy();
});

test("a run that is removed before the next scan is announced to clients that were sent it", async () => {
  const folder = newFolder();
  await kvlab(folder, ["replay", "--limit", "30", "--out", "elsewhere"]);
  mkdirSync(join(folder, "runs"));
  const over = await dashboardOver(join(folder, "runs"));
  // Waits for the first scan; without clients there are no further ones.
  await sleep(100);
  renameSync(join(folder, "elsewhere"), join(folder, "runs/short"));
  expect((await over.get<RunList>("/api/runs")).runs).toHaveLength(1);
  const { socket, received } = listen(over.port);
  rmSync(join(folder, "runs/short"), { recursive: true });
  await until(() => times(received(), "runs") === 2);
  expect((await over.get<RunList>("/api/runs")).runs).toEqual([]);
  socket.destroy();
});

test("a running program is announced", async () => {
  const folder = newFolder();
  const header = JSON.stringify({
    ...{ schema: "live/1", pid: process.pid, host: "elsewhere", command: "kvlab replay", run: null, trace: "t" },
    ...{ requests: 9, target: "cache", preset: null, index: "i", eviction: "e", allocator: "a", scheduler: "s" },
    ...{ victims: "any", blocks: null, blockTokens: 16 },
  });
  const over = await dashboardOver(join(folder, "runs"));
  const first = listen(over.port);
  await until(() => first.received().includes("event: live\ndata: []\n\n"));
  // Waits for a scan that finds no change.
  await sleep(500);
  mkdirSync(join(folder, "runs/.live/1"), { recursive: true });
  writeFileSync(join(folder, "runs/.live/1/header.json"), header);
  const second = listen(over.port);
  await until(() => second.received().includes('"id":"1"'));
  rmSync(join(folder, "runs/.live"), { recursive: true });
  await until(() => second.received().includes("event: live\ndata: []\n\n"));
  for (const { socket } of [first, second]) socket.destroy();
});

test("a job is announced while it runs and when it is done", async () => {
  const over = await dashboardOver(join(newFolder(), "runs"));
  const { socket, received } = listen(over.port);
  await over.start({ trace: "example", target: "cache", limit: 200 });
  await until(() => received().includes('"state":"done"'));
  expect(received()).toContain('"state":"running"');
  await until(() => times(received(), "runs") === 2);
  socket.destroy();
});

test("a client that does not read has one pending message of each kind and is finally disconnected", async () => {
  const bytes = 24_000_000;
  const { events, port, server } = await eventsOf(bytes, 30);
  const connections: Socket[] = [];
  server.on("connection", (socket) => connections.push(socket));
  const { socket } = listen(port);
  socket.pause();
  await until(() => events.clientCount === 1);
  let most = 0;
  while (events.clientCount === 1) {
    events.changed("jobs");
    events.changed("runs");
    most = Math.max(most, connections[0].writableLength);
    await sleep(5);
  }
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(2 * bytes);
  expect(connections[0].destroyed).toBe(true);
  socket.destroy();
  events.changed("jobs");
  events.close();
});

test("a client that reads late is sent the newest state, once", async () => {
  const { events, port } = await eventsOf(24_000_000, 10_000);
  const { socket, received } = listen(port);
  socket.pause();
  await until(() => events.clientCount === 1);
  for (let i = 0; i < 5; i++) {
    events.changed("runs");
    await sleep(10);
  }
  socket.resume();
  await until(() => times(received(), "runs") === 2);
  expect(times(received(), "jobs")).toBe(1);
  socket.destroy();
  events.close();
});

test("the number of open pages is limited", async () => {
  const { events, port } = await eventsOf(10, 10_000);
  const all = Array.from({ length: 40 }, () => listen(port));
  await until(() => all.filter(({ received }) => received() !== "").length === 40);
  expect(events.clientCount).toBe(32);
  expect(all.filter(({ received }) => received().startsWith("HTTP/1.1 503"))).toHaveLength(8);
  for (const { socket } of all) socket.destroy();
  await until(() => events.clientCount === 0);
  events.close();
});
