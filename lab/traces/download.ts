import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { InputError } from "../../core/errors.ts";
import { version } from "../package.ts";

/** An address, and the file that it is saved in while it is incomplete. */
export interface Download {
  readonly url: string;
  readonly part: string;
  /** Called with the bytes so far and, if it is known, the length of the file. */
  readonly advance?: ((done: number, total: number | undefined) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Downloaded {
  readonly bytes: number;
  readonly sha256: string;
  /** The bytes that were there from an earlier call. */
  readonly resumedFrom: number;
}

/** What identifies the version of a file on its server, saved beside the incomplete file. */
interface Origin {
  readonly url: string;
  /** A strong ETag or a date, for If-Range; without one the file is not resumed. */
  readonly validator: string | undefined;
  readonly total: number | undefined;
}

const mostAttempts = 5;
/** A connection without data for this long counts as cut. */
const stallMs = 60_000;
/** The pause before an attempt doubles with each attempt that received nothing. */
const firstPauseMs = 250;

/** An answer or a connection after which another attempt may succeed. */
class Retriable extends InputError {}

/** The file where the origin of an incomplete file is saved. */
export const originOf = (part: string) => `${part}.json`;

/**
 * Downloads a file to `part`, and continues there where an earlier call ended if the server still has the same version (range
 * requests with If-Range). Cut connections and errors of the server are repeated. On an error or an abort the bytes stay.
 *
 * @throws InputError if the file cannot be received or written; the signal's reason if it is aborted
 */
export async function download(options: Download): Promise<Downloaded> {
  const { url, part, signal } = options;
  const file = await opened(part);
  const transfer = new Transfer(file, options, await savedOrigin(url, part));
  try {
    const resumedFrom = await transfer.begin();
    for (let attempt = 1; ; attempt++) {
      const before = transfer.bytes;
      try {
        await transfer.receive();
        if (transfer.bytes === 0) throw new InputError(`${url}: the file is empty`);
        return { bytes: transfer.bytes, sha256: transfer.sha256(), resumedFrom };
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof Retriable)) throw error;
        if (transfer.bytes > before) attempt = 1;
        if (attempt >= mostAttempts) throw new InputError(`${error.message}, also after ${mostAttempts} attempts`);
        await pause(firstPauseMs * 2 ** (attempt - 1), undefined, { signal }).catch(() => {});
        signal?.throwIfAborted();
      }
    }
  } finally {
    await file.close();
    if (transfer.bytes === 0) for (const path of [part, originOf(part)]) await rm(path, { force: true });
  }
}

async function opened(part: string): Promise<FileHandle> {
  try {
    return await open(part, "a+");
  } catch (error) {
    throw new InputError(`${part}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

async function savedOrigin(url: string, part: string): Promise<Origin | undefined> {
  try {
    const saved = JSON.parse(await readFile(originOf(part), "utf8")) as Origin;
    return saved.url === url && typeof saved.validator === "string" ? saved : undefined;
  } catch {
    return undefined;
  }
}

class Transfer {
  bytes = 0;
  readonly #file: FileHandle;
  readonly #options: Download;
  #origin: Origin | undefined;
  #hash: Hash = createHash("sha256");

  constructor(file: FileHandle, options: Download, origin: Origin | undefined) {
    this.#file = file;
    this.#options = options;
    this.#origin = origin;
  }

  sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  /** Keeps the bytes of an earlier call if their origin is known. Returns their number. */
  async begin(): Promise<number> {
    const { size } = await this.#file.stat();
    const { part } = this.#options;
    if (size > 0 && !this.#origin) await this.#restart();
    if (!this.#origin) return 0;
    for await (const chunk of createReadStream(part)) this.#hash.update(chunk as Buffer);
    this.bytes = size;
    return size;
  }

  /** Receives the rest of the file. @throws Retriable if the connection ends before it */
  async receive(): Promise<void> {
    if (this.#origin?.total !== undefined && this.#origin.total === this.bytes && this.bytes > 0) return;
    const stalled = new AbortController();
    const { signal } = this.#options;
    const both = signal ? AbortSignal.any([signal, stalled.signal]) : stalled.signal;
    let timer = setTimeout(() => stalled.abort(), stallMs);
    try {
      const response = await this.#request(both);
      await this.#accept(response);
      const total = this.#origin?.total;
      for await (const chunk of response.body ?? []) {
        clearTimeout(timer);
        timer = setTimeout(() => stalled.abort(), stallMs);
        await this.#append(chunk);
      }
      if (total !== undefined && this.bytes < total)
        throw new Retriable(`${this.#options.url}: the connection ended after ${this.bytes} of ${total} bytes`);
      if (total !== undefined && this.bytes > total) {
        await this.#restart();
        throw new Retriable(`${this.#options.url}: sends more than the ${total} bytes that it states`);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof InputError) throw error;
      throw connectionError(this.#options.url, error, stalled.signal.aborted);
    } finally {
      clearTimeout(timer);
    }
  }

  #request(signal: AbortSignal): Promise<Response> {
    // Ranges count bytes of the file, not of a compressed transfer.
    const headers: Record<string, string> = { "Accept-Encoding": "identity", "User-Agent": `kvlab/${version}` };
    if (this.bytes > 0 && this.#origin?.validator) {
      headers["Range"] = `bytes=${this.bytes}-`;
      headers["If-Range"] = this.#origin.validator;
    }
    return fetch(this.#options.url, { headers, signal });
  }

  /** Checks the status, and starts anew unless the response continues the file. */
  async #accept(response: Response): Promise<void> {
    const { url } = this.#options;
    const { status, statusText } = response;
    if (status === 206 && this.bytes > 0) {
      const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get("content-range") ?? "");
      const total = range?.[2] === "*" ? undefined : Number(range?.[2]);
      const isSame = this.#origin?.total === undefined || total === undefined || total === this.#origin.total;
      if (range && Number(range[1]) === this.bytes && isSame) return;
      await this.#restart();
      throw new Retriable(`${url}: sends another range than the one that was requested`);
    }
    if (status === 416) {
      await this.#restart();
      throw new Retriable(`${url}: HTTP 416, the file is shorter than what was received`);
    }
    if (status !== 200) {
      await response.body?.cancel();
      const text = `${url}: HTTP ${status}${statusText ? ` ${statusText}` : ""}`;
      throw status >= 500 || status === 429 || status === 408 ? new Retriable(text) : new InputError(text);
    }
    if (this.bytes > 0) await this.#restart();
    const etag = response.headers.get("etag");
    const length = response.headers.get("content-length");
    const validator = (etag?.startsWith("W/") ? undefined : etag) ?? response.headers.get("last-modified") ?? undefined;
    // Node decodes a compressed transfer, so that its length is not that of the file.
    const isPlain = (response.headers.get("content-encoding") ?? "identity") === "identity";
    this.#origin = { url, validator, total: length !== null && isPlain ? Number(length) : undefined };
    await this.#written(() => writeFile(originOf(this.#options.part), JSON.stringify(this.#origin)));
  }

  async #append(chunk: Uint8Array): Promise<void> {
    await this.#written(async () => {
      for (let at = 0; at < chunk.length; ) at += (await this.#file.write(chunk, at)).bytesWritten;
    });
    this.#hash.update(chunk);
    this.bytes += chunk.length;
    this.#options.advance?.(this.bytes, this.#origin?.total);
  }

  async #restart(): Promise<void> {
    await this.#file.truncate(0);
    await rm(originOf(this.#options.part), { force: true });
    this.#origin = undefined;
    this.#hash = createHash("sha256");
    this.bytes = 0;
  }

  async #written(write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
    } catch (error) {
      throw new InputError(`${this.#options.part}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
    }
  }
}

const offline = ["ENOTFOUND", "ENETUNREACH", "EHOSTUNREACH"];

/** The error of a failed connection, from the error that fetch throws. */
function connectionError(url: string, error: unknown, isStalled: boolean): InputError {
  if (isStalled) return new Retriable(`${url}: no data for ${stallMs / 1000} s`);
  const { cause, message } = error as { cause?: { code?: string; message?: string }; message: string };
  const code = cause?.code;
  if (code !== undefined && offline.includes(code))
    return new InputError(
      `${url}: cannot be reached (${code}): there is no connection, or it needs a proxy (HTTPS_PROXY with NODE_USE_ENV_PROXY=1)`,
    );
  return new Retriable(`${url}: the connection failed (${code ?? cause?.message ?? message})`);
}

/** SHA-256 of a file, in hexadecimal. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

export const exists = async (path: string) => (await stat(path).catch(() => undefined)) !== undefined;
