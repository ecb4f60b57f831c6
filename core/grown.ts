type NumberArray = Uint8Array | Int16Array | Uint16Array | Uint32Array | Int32Array | Float64Array;

/** A copy of the typed array with length `length`; the new elements are 0. */
export function grown<T extends NumberArray>(column: T, length: number): T {
  const larger = new (column.constructor as new (length: number) => T)(length);
  larger.set(column);
  return larger;
}
