import { assert } from "../../core/errors.ts";
import type { Device } from "./device.ts";
import { foreignFunctions } from "./library.ts";

/** Value of a parameter: an address, a number, or the 8 bytes of a structure. */
export type ParameterValue = bigint | number;

type Kind = "bytes" | "int" | "float" | "size";

/**
 * A kernel with the memory of its parameters, 8 bytes each. A launch writes the values and passes their addresses, which do not
 * change, so that a launch allocates nothing; the driver copies the values.
 */
export class Kernel {
  readonly #device: Device;
  readonly #name: string;
  readonly #kinds: readonly Kind[];
  readonly #bytes: BigUint64Array;
  readonly #ints: Int32Array;
  readonly #floats: Float32Array;
  readonly #addresses: BigUint64Array;
  readonly #find: (name: string) => bigint;
  readonly #sharedBytes: number;
  #function: bigint | undefined;

  /**
   * @param parameters the C parameter list of the kernel
   * @param find address of a kernel of the loaded module
   * @param sharedBytes dynamic shared memory of a launch
   */
  constructor(device: Device, find: (name: string) => bigint, name: string, parameters: string, sharedBytes = 0) {
    this.#device = device;
    this.#name = name;
    this.#kinds = kindsOf(parameters);
    this.#sharedBytes = sharedBytes;
    this.#find = find;
    const values = new ArrayBuffer(8 * this.#kinds.length);
    this.#bytes = new BigUint64Array(values);
    this.#ints = new Int32Array(values);
    this.#floats = new Float32Array(values);
    const address = foreignFunctions().address(values);
    const addresses = new ArrayBuffer(values.byteLength);
    this.#addresses = new BigUint64Array(addresses);
    for (let i = 0; i < this.#kinds.length; i++) this.#addresses[i] = address + BigInt(8 * i);
  }

  launch(grid: readonly [x: number, y: number, z: number], threads: number, ...values: ParameterValue[]): void {
    if (grid[0] === 0 || grid[1] === 0) return;
    const kinds = this.#kinds;
    assert(values.length === kinds.length, `${values.length} of ${kinds.length} parameters of ${this.#name}`);
    for (let i = 0; i < kinds.length; i++) {
      const value = values[i];
      if (kinds[i] === "bytes") this.#bytes[i] = value as bigint;
      else if (kinds[i] === "int") this.#ints[2 * i] = value as number;
      else if (kinds[i] === "float") this.#floats[2 * i] = value as number;
      else {
        this.#ints[2 * i] = value as number;
        this.#ints[2 * i + 1] = Math.floor((value as number) / 2 ** 32);
      }
    }
    this.#function ??= this.#load();
    this.#device.launch(this.#function, grid, threads, this.#sharedBytes, this.#addresses);
  }

  #load(): bigint {
    const found = this.#find(this.#name);
    // More than this needs to be allowed.
    if (this.#sharedBytes > 48 * 1024) this.#device.allowSharedBytes(found, this.#sharedBytes);
    return found;
  }
}

/** How the value of each parameter is written. */
function kindsOf(parameters: string): Kind[] {
  return parameters.split(",").map((parameter) => {
    if (parameter.includes("*") || parameter.includes("BlockSize")) return "bytes";
    if (parameter.includes("float")) return "float";
    return parameter.includes("size_t") ? "size" : "int";
  });
}
