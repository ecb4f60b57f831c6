import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { assert, InputError } from "../../core/errors.ts";
import { type FloatFormat, floatBytes, fromBfloat16, fromFloat16 } from "./floats.ts";
import { Fields, reasonOf } from "./json-fields.ts";
import { elementsOf } from "./tensors.ts";

/** Location of a tensor's bytes, from the header of its file. */
export interface StoredTensor {
  readonly name: string;
  readonly format: string;
  readonly shape: readonly number[];
  readonly file: SafetensorsFile;
  /** First byte, counted from the beginning of the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** Sizes of all formats of the header, in bits; only float formats are read. */
const formatBits: Readonly<Record<string, number>> = {
  ...{ F64: 64, F32: 32, F16: 16, BF16: 16, F8_E4M3: 8, F8_E5M2: 8, F8_E8M0: 8 },
  ...{ I64: 64, I32: 32, I16: 16, I8: 8, U64: 64, U32: 32, U16: 16, U8: 8, BOOL: 8, C64: 64 },
};

/** The limit of the format's reference implementation. */
const maxHeaderBytes = 100_000_000;

/** Node reads no more than 2 GiB in one call. */
const maxReadBytes = 2 ** 30;

/** Bytes that are converted at once: bounds the memory that reading needs besides the result. */
const chunkBytes = 1 << 20;

/**
 * One safetensors file: the length of its header in 8 bytes, the header as JSON, the tensors. The constructor reads and
 * validates the header; tensors are read by position.
 *
 * Source: https://github.com/huggingface/safetensors, section "Format".
 */
export class SafetensorsFile {
  readonly path: string;
  readonly bytes: number;
  readonly modifiedMs: number;
  readonly tensors = new Map<string, StoredTensor>();
  #descriptor: number | undefined;

  /** @throws InputError with the path, the value found and the expected one. */
  constructor(path: string) {
    this.path = path;
    try {
      this.#descriptor = openSync(path, "r");
      const { size, mtimeMs } = fstatSync(this.#descriptor);
      this.bytes = size;
      this.modifiedMs = mtimeMs;
      this.#readHeader();
    } catch (error) {
      this.close();
      if (error instanceof InputError) throw error;
      throw new InputError(`${path}: ${reasonOf(error)}`);
    }
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  /** Reads bytes from `offset` on until `into` is full. */
  read(offset: number, into: Uint8Array): void {
    assert(this.#descriptor !== undefined, `${this.path} is closed`);
    let done = 0;
    while (done < into.length) {
      const length = Math.min(into.length - done, maxReadBytes);
      const count = readSync(this.#descriptor, into, done, length, offset + done);
      if (count === 0)
        throw new InputError(`${this.path}: ends at byte ${offset + done}, expected ${into.length - done} more`);
      done += count;
    }
  }

  #readHeader(): void {
    if (this.bytes < 8) this.#fail(`has ${this.bytes} bytes, expected the 8 of the header's length first`);
    const first = new Uint8Array(8);
    this.read(0, first);
    const length = new DataView(first.buffer).getBigUint64(0, true);
    if (length > maxHeaderBytes) this.#fail(`header length is ${length}, expected at most ${maxHeaderBytes}`);
    const dataStart = 8 + Number(length);
    if (dataStart > this.bytes) this.#fail(`header ends at byte ${dataStart}, the file has ${this.bytes}`);
    const text = new Uint8Array(Number(length));
    this.read(8, text);
    for (const [name, tensor] of Object.entries(this.#parsed(text))) {
      if (name !== "__metadata__") this.tensors.set(name, this.#tensor(name, tensor, dataStart));
    }
    this.#checkOverlaps();
  }

  #parsed(text: Uint8Array): Record<string, unknown> {
    try {
      const header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(text)) as unknown;
      if (typeof header === "object" && header !== null && !Array.isArray(header))
        return header as Record<string, unknown>;
    } catch {
      // Fails below.
    }
    return this.#fail("header is no JSON object");
  }

  #tensor(name: string, described: unknown, dataStart: number): StoredTensor {
    const fail = (what: string): never => this.#fail(`tensor ${name} ${what}`);
    const { dtype, shape, data_offsets: offsets } = (described ?? {}) as Record<string, unknown>;
    if (typeof dtype !== "string" || !Object.hasOwn(formatBits, dtype))
      return fail(`has dtype ${JSON.stringify(dtype)}, expected one of ${Object.keys(formatBits).join(", ")}`);
    if (!isCounts(shape)) return fail(`has shape ${JSON.stringify(shape)}, expected a list of lengths`);
    if (!isCounts(offsets) || offsets.length !== 2 || offsets[1] < offsets[0])
      return fail(`has data_offsets ${JSON.stringify(offsets)}, expected its first byte and the one after its last`);
    const [from, to] = offsets;
    const bytes = (elementsOf(shape) * formatBits[dtype]) / 8;
    if (to - from !== bytes)
      fail(`has ${to - from} bytes, expected ${bytes} for ${dtype} of shape ${JSON.stringify(shape)}`);
    if (dataStart + to > this.bytes)
      fail(`ends at byte ${dataStart + to}, the file has ${this.bytes}: is it truncated?`);
    return { name, format: dtype, shape, file: this, offset: dataStart + from, bytes };
  }

  #checkOverlaps(): void {
    const inOrder = [...this.tensors.values()].filter(({ bytes }) => bytes > 0).sort((a, b) => a.offset - b.offset);
    for (let i = 1; i < inOrder.length; i++) {
      const [before, tensor] = [inOrder[i - 1], inOrder[i]];
      if (tensor.offset < before.offset + before.bytes)
        this.#fail(`tensor ${tensor.name} begins at byte ${tensor.offset}, inside tensor ${before.name}`);
    }
  }

  #fail(what: string): never {
    throw new InputError(`${this.path}: ${what}`);
  }
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((one) => Number.isSafeInteger(one) && one >= 0);
}

/**
 * The safetensors files of a folder as one: `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
 */
export class SafetensorsFolder {
  readonly files: readonly SafetensorsFile[];
  /** The file that lists the tensors, for messages about missing ones. */
  readonly path: string;
  readonly #tensors = new Map<string, StoredTensor>();

  /** @throws InputError if a file is missing or invalid, or index and shards disagree. */
  constructor(folder: string) {
    const single = join(folder, "model.safetensors");
    const index = join(folder, "model.safetensors.index.json");
    const files: SafetensorsFile[] = [];
    this.files = files;
    try {
      if (existsSync(single)) {
        this.path = single;
        files.push(new SafetensorsFile(single));
        this.#add(files[0]);
      } else if (existsSync(index)) {
        this.path = index;
        this.#openShards(index, files);
      } else {
        const old = existsSync(join(folder, "pytorch_model.bin")) ? " (pytorch_model.bin is not read; convert it)" : "";
        throw new InputError(`${folder}: no model.safetensors and no model.safetensors.index.json${old}`);
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  get bytes(): number {
    return this.files.reduce((sum, file) => sum + file.bytes, 0);
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  names(): Iterable<string> {
    return this.#tensors.keys();
  }

  /**
   * A tensor of this shape that is stored as floats.
   *
   * @throws InputError with the file, the tensor, the value found and the expected one.
   */
  tensor(name: string, shape: readonly number[]): StoredTensor {
    const stored = this.#tensors.get(name);
    const expected = JSON.stringify(shape);
    if (!stored) throw new InputError(`${this.path}: tensor ${name} is missing, expected one of shape ${expected}`);
    const where = `${stored.file.path}: tensor ${name}`;
    if (JSON.stringify(stored.shape) !== expected)
      throw new InputError(`${where} has shape ${JSON.stringify(stored.shape)}, expected ${expected}`);
    if (!Object.hasOwn(floatBytes, stored.format))
      throw new InputError(`${where} has dtype ${stored.format}, expected ${Object.keys(floatBytes).join(", ")}`);
    return stored;
  }

  close(): void {
    for (const file of this.files) file.close();
  }

  #openShards(path: string, files: SafetensorsFile[]): void {
    const index = Fields.read(path);
    const map = index.object("weight_map");
    if (!map) throw index.wrong("weight_map", "an object with each tensor's file");
    const shards = new Map<string, SafetensorsFile>();
    for (const name of map.names()) {
      const file = map.text(name);
      if (file.includes("/") || file.includes("\\")) throw map.wrong(name, "the name of a file in the same folder");
      if (shards.has(file)) continue;
      const shard = new SafetensorsFile(join(dirname(path), file));
      files.push(shard);
      shards.set(file, shard);
      this.#add(shard);
    }
    for (const name of map.names()) {
      const shard = shards.get(map.text(name)) as SafetensorsFile;
      if (!shard.tensors.has(name))
        throw new InputError(`${shard.path}: tensor ${name} is missing, but listed in ${path}`);
    }
  }

  #add(file: SafetensorsFile): void {
    for (const [name, tensor] of file.tensors) {
      const other = this.#tensors.get(name);
      if (other) throw new InputError(`${file.path}: tensor ${name} is also in ${other.file.path}, expected it once`);
      this.#tensors.set(name, tensor);
    }
  }
}

const scratch = new Uint8Array(chunkBytes);

/** Reads numbers of a tensor, from element `from` on, until `into` is full; converts them to float32. */
export function readFloats({ file, format, offset }: StoredTensor, from: number, into: Float32Array): void {
  const size = floatBytes[format as FloatFormat];
  const start = offset + from * size;
  if (format === "F32") {
    file.read(start, new Uint8Array(into.buffer, into.byteOffset, into.byteLength));
    return;
  }
  const convert = format === "BF16" ? fromBfloat16 : fromFloat16;
  const chunkElements = chunkBytes / size;
  for (let done = 0; done < into.length; done += chunkElements) {
    const count = Math.min(chunkElements, into.length - done);
    file.read(start + done * size, scratch.subarray(0, count * size));
    convert(new Uint16Array(scratch.buffer, 0, count), into.subarray(done, done + count));
  }
}
