import type { ChildProcess } from "node:child_process";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import OpenAI from "openai";
import { afterAll } from "vitest";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import { type Ended, ended, newFolder, start } from "../cli/program.ts";
import { checkpointOf } from "../support/checkpoints.ts";
import { chatMlTemplate, chatTokenizer } from "../support/tokenizers.ts";

/** The model cache of the tests of a file. */
const cache = newFolder();
const running: Server[] = [];
afterAll(async () => {
  for (const server of running) await server.kill();
});

const config = randomConfig("tiny");

/** A folder of a tiny model with random weights, a tokenizer and a chat template. */
export const chatModel = () =>
  checkpointOf(config, randomWeights(config, 1), {
    files: { "tokenizer.json": chatTokenizer, "tokenizer_config.json": { chat_template: chatMlTemplate } },
  });

export interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

/** Most time for a server to start, on a busy machine. */
export const startMs = 60_000;

/** A real server process. */
export class Server {
  readonly #child: ChildProcess;
  readonly ended: Promise<Ended>;
  readonly port: number;
  /** Its working directory. */
  readonly folder: string;

  private constructor(child: ChildProcess, whenEnded: Promise<Ended>, port: number, folder: string) {
    this.folder = folder;
    this.#child = child;
    this.ended = whenEnded;
    this.port = port;
  }

  /** Starts `kvlab serve` at a free port. @throws an error with the program's output if it ends before it serves */
  static async start(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Server> {
    const folder = newFolder();
    const size = args.includes("--blocks") ? [] : ["--blocks", "2000"];
    const child = start(folder, ["serve", "--port", "0", "--threads", "1", ...size, ...args], {
      XDG_CACHE_HOME: cache,
      ...env,
    });
    const whenEnded = ended(child);
    let stdout = "";
    const port = await new Promise<number>((resolve, reject) => {
      child.stdout!.on("data", (text) => {
        stdout += text;
        const found = /^http:\/\/\S+:(\d+)\/v1 /.exec(stdout);
        if (found) resolve(Number(found[1]));
      });
      void whenEnded.then(({ code, stderr }) => reject(new Error(`the server ended with ${code}: ${stderr}`)));
    });
    const server = new Server(child, whenEnded, port, folder);
    running.push(server);
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The official client, unchanged. */
  client(apiKey = "none"): OpenAI {
    return new OpenAI({ baseURL: `${this.url}/v1`, apiKey, maxRetries: 0 });
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }

  /** A request with a raw body. */
  send(path: string, body?: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = httpRequest(`${this.url}${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
        agent: false,
      });
      request.on("error", reject);
      request.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => {
          text += part;
        });
        response.on("error", reject);
        response.on("end", () => resolve({ status: response.statusCode!, headers: response.headers, text }));
      });
      request.end(body);
    });
  }

  post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.send(path, JSON.stringify(body), headers);
  }

  /** A connection on which a completion has been requested. */
  connection(body: object): Socket {
    const text = JSON.stringify(body);
    const socket = connect(this.port, "127.0.0.1");
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${this.port}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
    return socket;
  }

  /** The value of a metric without its labels; the sum over labels. */
  async metric(name: string): Promise<number> {
    const { text } = await this.send("/metrics");
    const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`));
    if (lines.length === 0) throw new Error(`no metric ${name}`);
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  }
}

/** The documents of server-sent events, without the last one, `[DONE]`. @throws an error if that is missing */
export function eventsOf(text: string): Record<string, unknown>[] {
  const events = text.split("\n\n").filter((event) => event !== "");
  if (events.at(-1) !== "data: [DONE]") throw new Error(`the stream ends with ${events.at(-1)}`);
  return events.slice(0, -1).map((event) => JSON.parse(event.replace(/^data: /, "")));
}
