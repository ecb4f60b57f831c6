import { TraceError } from "../../core/errors.ts";

/** The data of a page contradicts the Parquet format. */
export class DamagedPage extends TraceError {}

/** A position in the bytes of a page; reading past the end is an error. */
export class Cursor {
  readonly bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  byte(): number {
    if (this.at >= this.bytes.length) throw new DamagedPage("a page ends early");
    return this.bytes[this.at++];
  }

  /** The next bytes, without a copy. */
  take(length: number): Uint8Array {
    if (!(length >= 0 && length <= this.bytes.length - this.at)) throw new DamagedPage("a page ends early");
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  uint32(): number {
    const [a, b, c, d] = this.take(4);
    return (a | (b << 8) | (c << 16) | (d << 24)) >>> 0;
  }

  /** An unsigned variable-length integer of up to 2^53. */
  varint(): number {
    let value = 0;
    for (let scale = 1; scale < 2 ** 53; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 128) return value;
    }
    throw new DamagedPage("a number is longer than 53 bits");
  }

  /** A variable-length integer of up to 64 bits, in zigzag encoding. */
  zigzag64(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 128) return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
    }
    throw new DamagedPage("a number is longer than 64 bits");
  }
}

/** Run-length encoded and bit-packed integers of `width` bits (levels, and indexes into a dictionary). */
export function readRuns<Values extends Uint8Array | Uint32Array>(
  cursor: Cursor,
  width: number,
  values: Values,
): Values {
  if (width > 32) throw new DamagedPage(`an index has ${width} bits, expected at most 32`);
  const count = values.length;
  for (let n = 0; n < count; ) {
    const header = cursor.varint();
    const length = Math.floor(header / 2);
    if (header % 2 === 0) {
      if (length > count - n) throw new DamagedPage(`a run has ${length} values, expected at most ${count - n}`);
      let value = 0;
      for (let i = 0; i < width; i += 8) value |= cursor.byte() << i;
      values.fill(value, n, n + length);
      n += length;
    } else {
      const used = Math.min(length * 8, count - n);
      // A last group may be padded, or cut behind its last value.
      const bytes = cursor.take(Math.min(length * width, cursor.bytes.length - cursor.at));
      if (bytes.length * 8 < used * width) throw new DamagedPage("a page ends early");
      unpack(bytes, width, values, n, used);
      n += used;
    }
  }
  return values;
}

/** Unpacks `count` integers of `width` bits, the lowest bits first. */
function unpack(
  bytes: Uint8Array,
  width: number,
  values: Uint8Array | Uint32Array,
  start: number,
  count: number,
): void {
  let bit = 0;
  for (let i = 0; i < count; i++, bit += width) values[start + i] = bitsAt(bytes, bit, width);
}

/** The low 32 bits of the integer of `width` bits that begins at bit `bit`. */
function bitsAt(bytes: Uint8Array, bit: number, width: number): number {
  let value = 0;
  const end = bit + Math.min(width, 32);
  for (let at = bit; at < end; ) {
    const offset = at & 7;
    const taken = Math.min(8 - offset, end - at);
    value |= ((bytes[at >>> 3] >>> offset) & ((1 << taken) - 1)) << (at - bit);
    at += taken;
  }
  return value >>> 0;
}

/** Delta-encoded integers (DELTA_BINARY_PACKED). The values wrap around at 32 or 64 bits. */
export function readDeltas(cursor: Cursor, values: Int32Array | BigInt64Array): void {
  const blockValues = cursor.varint();
  const miniblocks = cursor.varint();
  const count = cursor.varint();
  const perMiniblock = blockValues / miniblocks;
  if (!(perMiniblock > 0 && perMiniblock % 8 === 0 && blockValues <= 1 << 20))
    throw new DamagedPage(`a block has ${blockValues} values in ${miniblocks} groups`);
  if (count < values.length) throw new DamagedPage(`a page has ${count} values, expected ${values.length}`);
  const first = cursor.zigzag64();
  if (values.length === 0) return;
  const isWide = values instanceof BigInt64Array;
  if (isWide) values[0] = first;
  else values[0] = Number(BigInt.asIntN(32, first));
  for (let n = 1; n < values.length; ) {
    const least = cursor.zigzag64();
    const widths = cursor.take(miniblocks);
    for (let m = 0; m < miniblocks && n < values.length; m++) {
      const width = widths[m];
      if (width > 64) throw new DamagedPage(`a value has ${width} bits, expected at most 64`);
      const used = Math.min(perMiniblock, values.length - n);
      const bytes = cursor.take((perMiniblock * width) / 8);
      if (isWide) addWide(values, n, used, least, bytes, width);
      else add(values, n, used, Number(BigInt.asIntN(32, least)), bytes, width);
      n += used;
    }
  }
}

function add(values: Int32Array, start: number, count: number, least: number, bytes: Uint8Array, width: number): void {
  let value = values[start - 1];
  if (width === 0) for (let i = 0; i < count; i++) values[start + i] = value = (value + least) | 0;
  else
    for (let i = 0; i < count; i++) values[start + i] = value = (value + least + bitsAt(bytes, i * width, width)) | 0;
}

function addWide(
  values: BigInt64Array,
  start: number,
  count: number,
  least: bigint,
  bytes: Uint8Array,
  width: number,
): void {
  for (let i = 0; i < count; i++) {
    const low = bitsAt(bytes, i * width, Math.min(width, 32));
    const high = width > 32 ? bitsAt(bytes, i * width + 32, width - 32) : 0;
    values[start + i] = values[start + i - 1] + least + BigInt(low) + (BigInt(high) << 32n);
  }
}
