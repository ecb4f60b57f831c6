import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { fetchTrace, Interrupted, listPublicTraces, type Progress } from "../../../index.ts";
import { traceFormats } from "../../../traces/open.ts";
import { failureOf, folder } from "../../traces/files.ts";

const content = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * i) % 251));
const sha256 = createHash("sha256").update(content).digest("hex");

/** What the server does with the requests, one after the other; the last one is repeated. */
type Behaviour = (request: IncomingMessage, response: ServerResponse) => void;
let behaviours: Behaviour[] = [];
/** Range and If-Range of each request. */
let requests: (string | undefined)[][] = [];
let server: Server;
let to: string;
let count = 0;

beforeEach(async () => {
  requests = [];
  server = createServer((request, response) => {
    const { range, "if-range": ifRange } = request.headers;
    requests.push([range, ifRange as string | undefined]);
    const behaviour = behaviours.length > 1 ? behaviours.shift() : behaviours[0];
    behaviour?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  to = join(folder, `to${count++}`);
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const url = (path = "/trace.jsonl") => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

/** A server with ranges, as most file servers. It cuts the connection after `cutAfter` bytes of a response. */
const ranges =
  ({ body = content, etag = '"a"', cutAfter = Number.POSITIVE_INFINITY } = {}): Behaviour =>
  ({ headers }, response) => {
    const start = Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
    const isPart = start > 0 && headers["if-range"] === etag;
    const rest = isPart ? body.subarray(start) : body;
    response.writeHead(isPart ? 206 : 200, {
      etag,
      "content-length": rest.length,
      ...(isPart && { "content-range": `bytes ${start}-${body.length - 1}/${body.length}` }),
    });
    if (cutAfter >= rest.length) response.end(rest);
    else response.write(rest.subarray(0, cutAfter), () => setTimeout(() => response.destroy(), 20));
  };
const status =
  (code: number, headers = {}): Behaviour =>
  (_, response) => {
    response.writeHead(code, headers).end("an error page");
  };

const files = () => (existsSync(to) ? readdirSync(to).sort() : []);
const saved = () => readFileSync(join(to, "trace.jsonl"));

test("a file is saved with a record of its origin, after its checksum was checked", async () => {
  behaviours = [ranges()];
  const seen: number[] = [];
  const progress = ({ done }: { done: number }) => void seen.push(done);
  const fetched = await fetchTrace(url(), { to, sha256: sha256.toUpperCase(), progress });
  expect(fetched).toEqual({
    ...{ path: join(to, "trace.jsonl"), url: url(), bytes: 300_000, sha256 },
    ...{ isChecked: true, isPresent: false, resumedFrom: 0 },
  });
  expect(saved().equals(content)).toBe(true);
  expect(files()).toEqual(["trace.jsonl", "trace.jsonl.source.json"]);
  expect(JSON.parse(readFileSync(join(to, "trace.jsonl.source.json"), "utf8"))).toEqual({
    ...{ schema: "trace-source/1", url: url(), bytes: 300_000, sha256 },
  });
  expect(seen.at(-1)).toBe(300_000);
});

test("a cut connection is resumed where it ended, with If-Range", async () => {
  behaviours = [ranges({ cutAfter: 100_000 }), ranges({ cutAfter: 50_000 }), ranges()];
  const { resumedFrom } = await fetchTrace(url(), { to, sha256 });
  expect(resumedFrom).toBe(0);
  expect(requests).toEqual([
    [undefined, undefined],
    ["bytes=100000-", '"a"'],
    ["bytes=150000-", '"a"'],
  ]);
  expect(saved().equals(content)).toBe(true);
});

test("an interrupted download is resumed by the next call", async () => {
  const controller = new AbortController();
  behaviours = [ranges({ cutAfter: 100_000 })];
  const progress = ({ done }: Progress) => done > 0 && controller.abort();
  const stopped = fetchTrace(url(), { to, sha256, progress, signal: controller.signal });
  await expect(stopped).rejects.toThrow(Interrupted);
  await expect(stopped).rejects.toThrow(/trace\.jsonl\.part has the bytes so far, the same command resumes/);
  expect(files()).toEqual(["trace.jsonl.part", "trace.jsonl.part.json"]);
  behaviours = [ranges()];
  const { resumedFrom } = await fetchTrace(url(), { to, sha256 });
  expect(resumedFrom).toBeGreaterThan(0);
  expect(requests[1]).toEqual([`bytes=${resumedFrom}-`, '"a"']);
  expect(saved().equals(content)).toBe(true);
  expect(files()).toEqual(["trace.jsonl", "trace.jsonl.source.json"]);
});

test("a server without ranges sends the whole file again", async () => {
  const whole: Behaviour = (_, response) => void response.writeHead(200, { etag: '"a"' }).end(content);
  behaviours = [ranges({ cutAfter: 100_000 }), whole];
  await fetchTrace(url(), { to, sha256 });
  expect(saved().equals(content)).toBe(true);
});

test("a file that changed on the server is received from its beginning", async () => {
  const body = Buffer.concat([Buffer.from("new"), content]);
  behaviours = [ranges({ cutAfter: 100_000 }), ranges({ body, etag: '"b"' })];
  await fetchTrace(url(), { to });
  expect(requests[1]).toEqual(["bytes=100000-", '"a"']);
  expect(saved().equals(body)).toBe(true);
});

test("a wrong range, a range that cannot be satisfied and errors of the server are repeated", async () => {
  const wrong: Behaviour = (_, response) =>
    void response.writeHead(206, { "content-range": "bytes 5-9/300000", etag: '"a"' }).end("wrong");
  behaviours = [ranges({ cutAfter: 1000 }), wrong, ranges({ cutAfter: 1000 }), status(416), status(503), ranges()];
  await fetchTrace(url(), { to, sha256 });
  expect(saved().equals(content)).toBe(true);
});

test("redirects are followed", async () => {
  behaviours = [status(302, { location: "/moved/other.jsonl" }), ranges()];
  await fetchTrace(url(), { to, sha256 });
  expect(saved().equals(content)).toBe(true);
});

test("a wrong checksum is refused, and nothing is saved", async () => {
  behaviours = [ranges()];
  const other = "0".repeat(64);
  expect(await failureOf(() => fetchTrace(url(), { to, sha256: other }))).toBe(
    `${url()}: the SHA-256 of its 300000 bytes is ${sha256}, expected ${other}; nothing was saved (--sha256 states another one)`,
  );
  expect(files()).toEqual([]);
  expect(await failureOf(() => fetchTrace(url(), { to, sha256: "abc" }))).toBe(
    '--sha256 is "abc", expected 64 hexadecimal digits',
  );
});

test("a missing file, an empty one and a closed port are one message each, without a file", async () => {
  behaviours = [status(404)];
  expect(await failureOf(() => fetchTrace(url(), { to }))).toBe(`${url()}: HTTP 404 Not Found`);
  expect(requests).toHaveLength(1);
  behaviours = [ranges({ body: Buffer.alloc(0) })];
  expect(await failureOf(() => fetchTrace(url(), { to }))).toBe(`${url()}: the file is empty`);
  expect(files()).toEqual([]);
  const gone = url();
  server.close();
  server.closeAllConnections();
  expect(await failureOf(() => fetchTrace(gone, { to }))).toBe(
    `${gone}: the connection failed (ECONNREFUSED), also after 5 attempts`,
  );
  server.listen(0);
}, 30_000);

test("an existing file is kept: it is accepted with the expected checksum only", async () => {
  behaviours = [ranges()];
  mkdirSync(to);
  writeFileSync(join(to, "trace.jsonl"), content);
  expect(await fetchTrace(url(), { to, sha256 })).toMatchObject({ isPresent: true, bytes: 300_000 });
  expect(requests).toEqual([]);
  expect(await failureOf(() => fetchTrace(url(), { to }))).toMatch(
    /trace\.jsonl: already exists; --force replaces it$/,
  );
  writeFileSync(join(to, "trace.jsonl"), "other");
  expect(await failureOf(() => fetchTrace(url(), { to, sha256 }))).toMatch(
    /already exists with the SHA-256 .*; --force/,
  );
  expect(saved().toString()).toBe("other");
  await fetchTrace(url(), { to, sha256, force: true });
  expect(saved().equals(content)).toBe(true);
});

test("names that are not known and addresses without a file are refused", async () => {
  expect(await failureOf(() => fetchTrace("mooncake-conversatoin", { to }))).toMatch(
    /^unknown trace "mooncake-conversatoin": did you mean "mooncake-conversation"\?/,
  );
  expect(await failureOf(() => fetchTrace(url("/"), { to }))).toMatch(/does not end in the name of a file$/);
  expect(await failureOf(() => fetchTrace(url("/..%2Fup"), { to }))).toMatch(/does not end in the name of a file$/);
  writeFileSync(join(folder, "plain"), "");
  expect(await failureOf(() => fetchTrace(url(), { to: join(folder, "plain") }))).toMatch(/cannot be written/);
});

test("the catalogue names formats that are read, and addresses with https", async () => {
  const formats = traceFormats.map(({ name }) => name);
  const traces = await listPublicTraces();
  for (const { name, url, file, format, sha256, licence, cite } of traces) {
    expect(name).toMatch(/^[a-z0-9-]+$/);
    expect(url).toMatch(/^https:\/\/\S+$/);
    if (format !== undefined) expect(formats).toContain(format);
    if (sha256 !== undefined) expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    expect([file, licence, cite]).not.toContain("");
  }
  for (const key of ["name", "file"] as const)
    expect(new Set(traces.map((each) => each[key])).size).toBe(traces.length);
});
