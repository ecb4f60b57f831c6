import type { BlockBatch, BlockBatches } from "../run/block-stream.ts";

/** A trace with larger columns is not copied to shared memory. */
export const mostSharedBytes = 2 ** 30;

/**
 * A copy of all batches that threads share; undefined if they are larger than `mostBytes`, or have contents of blocks, which
 * cannot be shared. Keys of the trace are left out: a run reads those of the blocks.
 */
export async function sharedBatches(
  input: BlockBatches,
  mostBytes = mostSharedBytes,
): Promise<BlockBatch[] | undefined> {
  const shared: BlockBatch[] = [];
  let bytes = 0;
  for await (const { trace, blocks } of input.batches()) {
    if (blocks.contents !== undefined) return undefined;
    const { generatedKeys: _, generatedStart: __, ...optional } = trace.optional;
    const columns = { ...trace, keys: new Uint32Array(0), keyStart: new Float64Array(0), optional };
    bytes += bytesOf(columns) + bytesOf(optional) + bytesOf(blocks);
    if (bytes > mostBytes) return undefined;
    shared.push({ trace: { ...inShared(columns), optional: inShared(optional) }, blocks: inShared(blocks) });
  }
  return shared;
}

const bytesOf = (columns: object): number =>
  Object.values(columns).reduce((sum, column) => sum + (ArrayBuffer.isView(column) ? column.byteLength : 0), 0);

/** The typed arrays copied to shared memory. */
export function inShared<Columns extends object>(columns: Columns): Columns {
  const copy = (column: unknown) => {
    if (!ArrayBuffer.isView(column)) return column;
    const array = column as Uint32Array;
    const Type = array.constructor as new (buffer: SharedArrayBuffer) => Uint32Array;
    const shared = new Type(new SharedArrayBuffer(array.byteLength));
    shared.set(array);
    return shared;
  };
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, copy(column)])) as Columns;
}
