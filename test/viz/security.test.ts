import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Choices, Job, RunList } from "../../viz/api.ts";
import { kvlab, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
const [runs, traces, policies, models] = ["runs", "traces", "policies", "models"].map((name) => join(folder, name));
const secret = '{ "schema": "run/1", "secret": "not for the page" }';
let client: Client;

beforeAll(async () => {
  await kvlab(folder, ["replay", "example", "--limit", "30", "--out", "runs/one"]);
  await kvlab(folder, ["trace", "generate", "chat", "--requests", "20", "--out", "traces/below/chat.jsonl.gz"]);
  await kvlab(folder, ["trace", "generate", "chat", "--requests", "20", "--out", "outside.jsonl"]);
  await kvlab(folder, ["replay", "example", "--limit", "30", "--events", "--out", "traces/saved"]);
  mkdirSync(policies);
  mkdirSync(models);
  mkdirSync(join(folder, "secret"));
  writeFileSync(join(folder, "secret/run.json"), secret);
  writeFileSync(join(folder, "secret/config.json"), "{}");
  symlinkSync(join(folder, "secret"), join(models, "linked"));
  writeFileSync(join(folder, "run.json"), secret);
  writeFileSync(join(folder, "outside.ts"), "export default {};");
  symlinkSync(join(folder, "secret"), join(runs, "linked"));
  symlinkSync(join(folder, "outside.jsonl"), join(traces, "linked.jsonl"));
  symlinkSync(folder, join(traces, "up"));
  symlinkSync(join(folder, "outside.ts"), join(policies, "linked.ts"));
  client = await dashboardOver(runs, { traces: [traces], policies, models });
}, 120_000);

/** The message of a refusal, which must be one line of JSON. */
function errorOf({ status, text, headers }: Awaited<ReturnType<Client["request"]>>): [number, string] {
  expect(headers["content-type"]).toBe("application/json; charset=utf-8");
  const { error, ...others } = JSON.parse(text);
  expect(others).toEqual({});
  expect(error).toMatch(/^[^\n]+$/);
  // It may contain text that the client sent.
  expect(error.replace(/"[^"]*"/g, "")).not.toContain(folder);
  return [status, error];
}

describe("a foreign host name is refused", () => {
  test.each([
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost.evil.example:PORT",
    "0.0.0.0:PORT",
  ])("%j", async (name) => {
    const host = name.replace("PORT", `${client.port}`);
    for (const path of ["/", "/api/runs", "/app.js"])
      expect(errorOf(await client.request(path, { headers: { host } }))[0]).toBe(403);
  });

  test.each(["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])("but not %s", async (name) => {
    expect((await client.request("/api/runs", { headers: { host: `${name}:${client.port}` } })).status).toBe(200);
  });

  test("a request without a host is refused", async () => {
    for (const host of ["", "Host: \r\n"])
      expect(await spoken(client.port, `GET /api/runs HTTP/1.0\r\n${host}\r\n`)).toMatch(/^HTTP\/1.1 403 /);
  });
});

describe("requests of other sites are refused", () => {
  const job = { trace: "example", target: "cache", limit: 10 };

  test.each(["http://evil.example", "null", "https://127.0.0.1:PORT", "http://127.0.0.1:1", "http://localhost:PORT"])(
    "with the Origin %s",
    async (name) => {
      const origin = name.replace("PORT", `${client.port}`);
      expect(errorOf(await client.post(job, { origin }))[0]).toBe(403);
      expect(errorOf(await client.request("/api/jobs/1", { method: "DELETE", headers: { origin } }))[0]).toBe(403);
      expect(errorOf(await client.request("/api/runs", { headers: { origin } }))[0]).toBe(403);
    },
  );

  test("also without an origin", async () => {
    for (const site of ["cross-site", "same-site", "none"])
      expect(errorOf(await client.post(job, { "sec-fetch-site": site }))[0]).toBe(403);
  });

  test("also subresource requests without an origin", async () => {
    for (const site of ["cross-site", "same-site"])
      for (const path of ["/api/events", "/api/runs", "/api/runs/one/log", "/API/runs", "/Api/runs/one/log"])
        expect(errorOf(await client.request(path, { headers: { "sec-fetch-site": site } }))[0]).toBe(403);
  });

  test("but links to the page and direct navigation are allowed", async () => {
    for (const [site, path] of [
      ["cross-site", "/"],
      ["none", "/"],
      ["none", "/api/runs"],
      ["same-origin", "/api/runs"],
    ])
      expect((await client.request(path, { headers: { "sec-fetch-site": site } })).status).toBe(200);
  });

  test("also preflight requests", async () => {
    const headers = { origin: "http://evil.example", "access-control-request-method": "POST" };
    const response = await client.request("/api/jobs", { method: "OPTIONS", headers });
    expect(errorOf(response)[0]).toBe(403);
    expect(Object.keys(response.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("no job was started by them", async () => {
    expect(await client.get<Job[]>("/api/jobs")).toEqual([]);
  });
});

test("the server is reachable from this machine only", async () => {
  const others = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal);
  for (const { address } of others) expect(await canConnect(address, client.port), address).toBe(false);
  expect(await canConnect("127.0.0.1", client.port)).toBe(true);
});

test("the page is served with a content security policy without other sources", async () => {
  const { status, headers, text } = await client.request("/");
  expect([status, headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  expect(text).toContain("a page");
  expect(headers["content-security-policy"]).toBe(
    "default-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data: blob:;object-src 'none';base-uri 'none';" +
      "form-action 'none';frame-ancestors 'none'",
  );
  expect(headers).toMatchObject({ "x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin" });
  expect(headers).not.toHaveProperty("x-powered-by");
  const script = await client.request("/app.js");
  expect([script.headers["content-type"], script.text]).toEqual(["text/javascript; charset=utf-8", "let a = 1;"]);
});

describe("no path leads out of the folder of runs", () => {
  test.each([
    ...[
      "..",
      "%2e%2e",
      "../secret",
      "..%2fsecret",
      "%2e%2e%2fsecret",
      "..%5csecret",
      "one%2f..%2f..%2fsecret",
      "linked",
    ],
    ...[
      "one%00",
      "%00",
      ".",
      "",
      "%2fetc",
      "%252e%252e",
      "one/../../secret",
      "~",
      "%c0%ae%c0%ae",
      "%ff",
      "a".repeat(5000),
    ],
    encodeURIComponent("/etc"),
  ])("%s", async (id) => {
    for (const path of [`/api/runs/${id}/series`, `/api/runs/${id}/requests`, `/api/pairs?a=${id}&b=one`]) {
      const [status] = errorOf(await client.request(path));
      expect([400, 404], path).toContain(status);
    }
    const response = await client.request(`/api/runs/${id}`);
    if (id === "") expect((JSON.parse(response.text) as RunList).runs).toHaveLength(2);
    else expect([400, 404]).toContain(errorOf(response)[0]);
    expect(response.text).not.toContain("not for the page");
  });

  test.each([
    "/../package.json",
    "/..%2fpackage.json",
    "/app.js/..",
    "/%00",
    "/__proto__",
    "/constructor",
    "//etc/passwd",
  ])("nor into other files: %s", async (path) => {
    expect([400, 404]).toContain(errorOf(await client.request(path))[0]);
  });

  test("an absolute address is equivalent to its path", async () => {
    expect((await client.request(`http://evil.example/api/runs/..%2fsecret`)).status).toBe(404);
  });
});

describe("a job accepts the available choices and nothing else", () => {
  test("which are files in the given folders", async () => {
    const choices = await client.get<Choices>("/api/choices");
    expect(choices.traces).toEqual(["example", join(traces, "below/chat.jsonl.gz")]);
    expect(choices.evictions).toContain("lru");
    expect(choices.evictions.filter((name) => name.includes("/"))).toEqual([]);
    expect(choices.engineModels.filter((name) => !name.startsWith("random:"))).toEqual([]);
    expect(choices.presets).toContain("vllm");
  });

  const good = { trace: "example", target: "cache" };
  const sim = { trace: "example", target: "sim" };
  const cpu = { trace: "example", target: "cpu" };
  test.each<[string, string, unknown]>([
    ["a trace elsewhere", "trace", { ...good, trace: join(folder, "outside.jsonl") }],
    ["a trace above", "trace", { ...good, trace: join(traces, "../outside.jsonl") }],
    ["a link to a trace", "trace", { ...good, trace: join(traces, "linked.jsonl") }],
    ["a trace over a link", "trace", { ...good, trace: join(traces, "up/outside.jsonl") }],
    ["an option for a trace", "trace", { ...good, trace: "--operations=/etc/passwd" }],
    ["a policy's file", "evictions", { ...good, evictions: [join(folder, "outside.ts")] }],
    ["a link to one", "evictions", { ...good, evictions: [join(policies, "linked.ts")] }],
    ["two in one", "evictions", { ...good, evictions: ["lru,./outside.ts"] }],
    ["an option for a policy", "evictions", { ...good, evictions: ["--out=/tmp"] }],
    ["an index's file", "indexes", { ...good, indexes: ["./outside.ts"] }],
    ["a scheduler of no name", "schedulers", { ...good, schedulers: ["__proto__"] }],
    ["an allocator with a line's end", "allocators", { ...good, allocators: ["block\n--out=/tmp"] }],
    ["a preset of no name", "presets", { ...good, presets: ["constructor"] }],
    ["all presets by a word that is none of them", "presets", { ...good, presets: ["all"] }],
    ["another target", "target", { ...good, target: "http://evil.example" }],
    ["an option for blocks", "blocks", { ...good, blocks: ["--out=/tmp"] }],
    ["blocks with a line's end", "blocks", { ...good, blocks: ["10\n"] }],
    ["no blocks at all", "blocks", { ...good, blocks: ["0"] }],
    ["a share of nothing", "blocks", { ...good, blocks: ["0.00%"] }],
    ["a comparison with an unlimited cache", "blocks", { ...good, blocks: ["10%", "unlimited"] }],
    ["a size twice", "blocks", { ...good, blocks: ["10%", "10%"] }],
    ["a limit that is none", "limit", { ...good, limit: -1 }],
    ["a limit in words", "limit", { ...good, limit: "1; rm" }],
    ["a seed that is no whole number", "seed", { ...good, seed: 1.5 }],
    ["a warm-up below none", "warmup", { ...good, warmup: -5 }],
    ["a log of a kind", "events", { ...good, events: "--timeline=/tmp/x" }],
    ["a model without a clock", "model", { ...good, model: "llama-3.1-8b" }],
    ["a rate without a clock", "rates", { ...good, rates: [1] }],
    ["a model's file", "model", { ...sim, model: join(folder, "run.json") }],
    ["an option for a model", "model", { ...sim, model: "--cost=/etc/passwd" }],
    ["a real engine's model for the simulator", "model", { ...sim, model: "random:tiny" }],
    ["hardware of no name", "gpu", { ...sim, gpu: "toString" }],
    ["a router without a choice", "routers", { ...sim, routers: ["random"] }],
    ["a router of no name", "routers", { ...sim, replicas: [2], routers: ["-h"] }],
    ["replicas below one", "replicas", { ...sim, replicas: [0] }],
    ["a rate of nothing", "rates", { ...sim, rates: [0] }],
    ["a rate without end", "rates", '{"trace":"example","target":"sim","rates":[1e999]}'],
    ["a rate in words", "rates", { ...sim, rates: ["--speed"] }],
    ["a model's folder elsewhere", "model", { ...cpu, model: join(folder, "secret") }],
    ["a link to a model's folder", "model", { ...cpu, model: join(models, "linked") }],
    ["a folder that is no model", "model", { ...cpu, model: models }],
    ["a random model of no name", "model", { ...cpu, model: "random:huge" }],
    ["hardware for a real engine", "gpu", { ...cpu, gpu: "h200" }],
    ["a field that there is not", "out", { ...good, out: "/tmp" }],
    ["no target", "target", { trace: "example" }],
    ["a list", "the request", [good]],
    ["nothing", "", ""],
    ["no JSON", "", "{"],
    ["a word", "", '"example"'],
    ["too many", "blocks", { ...good, blocks: Array.from({ length: 51 }, (_, i) => `${i + 1}`) }],
  ])("%s", async (_, field, body) => {
    for (const path of ["/api/jobs", "/api/command"]) {
      const [status, error] = errorOf(await client.post(body, {}, path));
      expect(status).toBe(400);
      expect(error.startsWith(field === "" ? "" : `${field}: `), error).toBe(true);
    }
    expect(await client.get<Job[]>("/api/jobs")).toEqual([]);
  });

  test("in uncompressed JSON of at most 16 KiB", async () => {
    const text = JSON.stringify(good);
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"])
      expect(errorOf(await client.post(text, { "content-type": type }))[0]).toBe(415);
    expect(errorOf(await client.post(`${text}${" ".repeat(16_384)}`))[0]).toBe(413);
    expect(errorOf(await client.post(text, { "content-encoding": "gzip" }))[0]).toBe(415);
    expect(errorOf(await client.post(text, { "content-type": "text/plain" }, "/api/command"))[0]).toBe(415);
    expect(await client.get<Job[]>("/api/jobs")).toEqual([]);
  });
});

test.each([
  "/api/runs/one/series?bins=0",
  "/api/runs/one/series?bins=1e9",
  "/api/runs/one/series?bins=5&bins=6",
  "/api/runs/one/series?bins[]=5",
  "/api/runs/one/series?fromNs=-1",
  "/api/runs/one/series?toNs=NaN",
  "/api/runs/one/requests?points=99999999",
  "/api/runs/one/requests?pionts=5",
  "/api/pairs?a=one",
  "/api/pairs?a=one&b=one&metric=__proto__",
])("an invalid query is refused: %s", async (path) => {
  expect(errorOf(await client.request(path))[0]).toBe(400);
});

test("other addresses and methods are refused", async () => {
  for (const [method, path] of [
    ["GET", "/api"],
    ["GET", "/api/nothing"],
    ["PUT", "/api/runs/one"],
    ["DELETE", "/api/runs"],
    ["POST", "/api/runs"],
    ["DELETE", "/api/jobs/7"],
  ])
    expect(errorOf(await client.request(path, { method }))[0], path).toBe(404);
  expect(errorOf(await client.request("/api/jobs/1e3", { method: "DELETE" }))[0]).toBe(400);
});

/** The server's response to exactly these bytes. */
function spoken(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let response = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.setEncoding("utf8").on("data", (part) => {
      response += part;
    });
    socket.on("end", () => resolve(response)).on("error", reject);
  });
}

const canConnect = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 1000 }, () => end(true));
    const end = (isConnected: boolean) => {
      socket.destroy();
      resolve(isConnected);
    };
    socket.on("error", () => end(false)).on("timeout", () => end(false));
  });
