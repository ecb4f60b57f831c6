/**
 * Decompresses Snappy's block format (github.com/google/snappy, format_description.txt). hyparquet's decoder does not check the
 * lengths of elements: one of 2^31 bytes or more moves its position backwards, so that it may not return.
 *
 * @throws RangeError if the data are not those of `size` bytes
 */
export function unpackSnappy(data: Uint8Array, size: number): Uint8Array {
  const output = new Uint8Array(size);
  let at = 0;
  let filled = 0;
  const littleEndian = (bytes: number): number => {
    if (at + bytes > data.length) throw new RangeError(`the data end after ${data.length} bytes`);
    let value = 0;
    for (let i = 0; i < bytes; i++) value += data[at++] * 2 ** (8 * i);
    return value;
  };
  const checkSpace = (length: number) => {
    if (length > size - filled) throw new RangeError(`more than ${size} bytes`);
  };

  let stated = 0;
  for (let shift = 0, byte = 128; byte >= 128; shift += 7) {
    if (shift > 28) throw new RangeError("the length has more than 5 bytes");
    byte = littleEndian(1);
    stated += (byte & 127) * 2 ** shift;
  }
  if (stated !== size) throw new RangeError(`${stated} bytes, expected ${size}`);
  while (at < data.length) {
    const tag = data[at++];
    const kind = tag & 3;
    if (kind === 0) {
      const short = tag >>> 2;
      const length = 1 + (short < 60 ? short : littleEndian(short - 59));
      checkSpace(length);
      if (length > data.length - at) throw new RangeError(`the data end after ${data.length} bytes`);
      output.set(data.subarray(at, at + length), filled);
      at += length;
      filled += length;
      continue;
    }
    const length = kind === 1 ? 4 + ((tag >>> 2) & 7) : 1 + (tag >>> 2);
    const offset = kind === 1 ? (tag >>> 5) * 256 + littleEndian(1) : littleEndian(kind === 2 ? 2 : 4);
    checkSpace(length);
    if (offset === 0 || offset > filled)
      throw new RangeError(`a copy from ${offset} bytes back, expected 1 to ${filled}`);
    // The copied bytes may overlap those that they are copied to.
    for (let i = 0; i < length; i++, filled++) output[filled] = output[filled - offset];
  }
  if (filled !== size) throw new RangeError(`${filled} bytes, expected ${size}`);
  return output;
}
