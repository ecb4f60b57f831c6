import { closeSync, readSync } from "node:fs";
import { deserialize, serialize } from "node:v8";
import { assert } from "../core/errors.ts";
import { temporaryFile, writeTemporary } from "../traces/bytes.ts";

/** Batches of more bytes in total are written to a file. */
const mostBytesInMemory = 128 * 2 ** 20;

/** Batches of a trace for later passes: in memory if they are small, otherwise in a temporary file without a name. */
export class BatchStore<Batch extends object> {
  readonly #mostBytes: number;
  #bytes = 0;
  #inMemory: Batch[] = [];
  #file: number | undefined;
  /** Length of each batch in the file. */
  readonly #lengths: number[] = [];

  constructor(mostBytes = mostBytesInMemory) {
    this.#mostBytes = mostBytes;
  }

  /** `bytes`: the size of the batch in memory. @throws InputError if the file cannot be written */
  add(batch: Batch, bytes: number): void {
    this.#bytes += bytes;
    this.#inMemory.push(batch);
    if (this.#bytes <= this.#mostBytes) return;
    this.#file ??= temporaryFile("trace");
    for (const each of this.#inMemory) {
      const written = serialize(each);
      writeTemporary("trace", this.#file, written);
      this.#lengths.push(written.length);
    }
    this.#inMemory = [];
  }

  /** All batches in order. */
  *read(): Generator<Batch> {
    let position = 0;
    for (const length of this.#lengths) {
      // Each batch has a buffer of its own, which its columns are views of.
      const bytes = Buffer.allocUnsafeSlow(length);
      for (let at = 0; at < length; ) {
        const count = readSync(this.#file!, bytes, at, length - at, position + at);
        assert(count > 0, "a temporary file is shorter than what was written to it");
        at += count;
      }
      position += length;
      yield deserialize(bytes);
    }
    yield* this.#inMemory;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}
