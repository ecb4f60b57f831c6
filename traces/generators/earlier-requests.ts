import { grown } from "../../core/grown.ts";

/** Most block ids of earlier requests that are kept to be shared again. */
const mostKeptKeys = 1 << 25;
/** Requests on each side of the wanted age in which one with enough blocks is searched. */
const searched = 256;

/** The whole blocks of earlier requests, the last ones that fit. */
export class EarlierRequests {
  readonly #keys = new Map<number, Uint32Array>();
  #kept = 0;
  #oldest = 0;
  #lastRow: Int32Array = new Int32Array(1024);

  add(row: number, keys: Uint32Array): void {
    const most = keys.reduce((largest, key) => Math.max(largest, key), 0);
    if (most >= this.#lastRow.length)
      this.#lastRow = grown(this.#lastRow, Math.max(most + 1, 2 * this.#lastRow.length));
    for (const key of keys) this.#lastRow[key] = row;
    this.#keys.set(row, keys);
    this.#kept += keys.length;
    for (; this.#kept > mostKeptKeys; this.#oldest++) {
      this.#kept -= this.#keys.get(this.#oldest)!.length;
      this.#keys.delete(this.#oldest);
    }
  }

  /** `blocks` leading blocks of a request of about this age; fewer if none near it has as many. */
  prefix(row: number, age: number, blocks: number): Uint32Array {
    if (blocks === 0 || row === 0) return new Uint32Array(0);
    let best: Uint32Array | undefined;
    for (let distance = 0; distance <= searched; distance++) {
      for (const at of [row - age - distance, row - age + distance]) {
        const keys = at < row ? this.#keys.get(at) : undefined;
        if (!keys || keys.length === 0) continue;
        if (keys.length >= blocks && this.#lastRow[keys[blocks - 1]] === at) return keys.subarray(0, blocks);
        if (!best || Math.min(keys.length, blocks) > Math.min(best.length, blocks)) best = keys;
      }
    }
    return best?.subarray(0, blocks) ?? new Uint32Array(0);
  }
}
