type NumberArray = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array;

/** An array of the same kind with room for `length` numbers, which begins with what was there. */
export function grown<T extends NumberArray>(column: T, length: number): T {
  const larger = new (column.constructor as new (length: number) => T)(length);
  larger.set(column);
  return larger;
}
