// Runs single kernels on a CUDA driver library through koffi, with device buffers as typed arrays.
import koffi from "koffi";

type Values = Int32Array | Uint16Array | Float32Array | Float64Array | Uint8Array;

/** A float parameter; other numbers are integers. */
export interface FloatParameter {
  readonly float: number;
}
export const float = (value: number): FloatParameter => ({ float: value });

/** Parameter `BlockSize` of the attention kernels. */
export interface BlockSize {
  readonly tokens: number;
}

/** Addresses are bigint; `null` is the null pointer; numbers are int, or size_t where the kernel has one. */
export type Parameter = bigint | number | null | FloatParameter | BlockSize;

export class CudaError extends Error {
  override name = "CudaError";
}

function prototypes(path: string) {
  const library = koffi.load(path);
  return {
    init: library.func("int cuInit(uint flags)"),
    retain: library.func("int cuDevicePrimaryCtxRetain(_Out_ uint64_t *context, int device)"),
    load: library.func("int cuModuleLoadData(_Out_ uint64_t *module, const void *image)"),
    kernel: library.func("int cuModuleGetFunction(_Out_ uint64_t *kernel, uint64_t module, const char *name)"),
    parameter: library.func(
      "int cuFuncGetParamInfo(uint64_t kernel, size_t i, _Out_ size_t *offset, _Out_ size_t *bytes)",
    ),
    setAttribute: library.func("int cuFuncSetAttribute(uint64_t kernel, int attribute, int value)"),
    allocate: library.func("int cuMemAlloc_v2(_Out_ uint64_t *address, size_t bytes)"),
    free: library.func("int cuMemFree_v2(uint64_t address)"),
    upload: library.func("int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)"),
    download: library.func("int cuMemcpyDtoH_v2(_Out_ void *to, uint64_t from, size_t bytes)"),
    launch: library.func(
      "int cuLaunchKernel(uint64_t kernel, uint gx, uint gy, uint gz, uint bx, uint by, uint bz, uint shared, uint64_t stream, void *parameters, void *extra)",
    ),
    synchronize: library.func("int cuCtxSynchronize()"),
  };
}

type Prototypes = ReturnType<typeof prototypes>;

const maxDynamicShared = 8;

/** The device of one driver library. Buffers are freed together by `reset`. */
export class Device {
  readonly #driver: Prototypes;
  readonly #module: bigint;
  readonly #kernels = new Map<string, { readonly handle: bigint; readonly bytes: readonly number[] }>();
  #buffers: bigint[] = [];

  constructor(path: string) {
    this.#driver = prototypes(path);
    this.#check(this.#driver.init(0));
    this.#out(this.#driver.retain, 0);
    const module = [0n];
    this.#check(this.#driver.load(module, Buffer.from("\0")));
    this.#module = BigInt(module[0]);
  }

  /** Uploads an array; returns its address. */
  upload(values: Values): bigint {
    const address = this.allocate(values.byteLength);
    this.#check(this.#driver.upload(address, values, values.byteLength));
    return address;
  }

  /** Unwritten memory is NaN. */
  allocate(bytes: number): bigint {
    const address = this.#out(this.#driver.allocate, bytes);
    this.#buffers.push(address);
    return address;
  }

  download<T extends Values>(into: T, address: bigint): T {
    this.#check(this.#driver.download(into, address, into.byteLength));
    return into;
  }

  /** Launches a kernel and waits for it. */
  run(name: string, grid: readonly number[], threads: number, parameters: readonly Parameter[], sharedBytes = 0): void {
    const { handle, bytes } = this.#kernel(name);
    if (bytes.length !== parameters.length) throw new Error(`${name} has ${bytes.length} parameters`);
    const storage = new ArrayBuffer(8 * parameters.length);
    const base = koffi.address(storage);
    const pointers = BigUint64Array.from(parameters, (_, i) => base + BigInt(8 * i));
    for (const [i, value] of parameters.entries()) writeParameter(new DataView(storage, 8 * i, 8), value, bytes[i]);
    if (sharedBytes > 0) this.#check(this.#driver.setAttribute(handle, maxDynamicShared, sharedBytes));
    const [x, y = 1, z = 1] = grid;
    this.#check(this.#driver.launch(handle, x, y, z, threads, 1, 1, sharedBytes, 0n, pointers, null));
    this.#check(this.#driver.synchronize());
  }

  /** Frees all buffers. */
  reset(): void {
    for (const address of this.#buffers) this.#check(this.#driver.free(address));
    this.#buffers = [];
  }

  /** Sets the order in which warps and blocks run; 0: ascending. */
  setWarpOrder(seed: number): void {
    process.env["KVLAB_EMULATOR_SEED"] = String(seed);
    this.#check(this.#driver.init(0));
  }

  #kernel(name: string) {
    let kernel = this.#kernels.get(name);
    if (!kernel) {
      const handle = this.#out(this.#driver.kernel, this.#module, name);
      kernel = { handle, bytes: this.#parameterBytes(handle) };
      this.#kernels.set(name, kernel);
    }
    return kernel;
  }

  #parameterBytes(kernel: bigint): number[] {
    const sizes: number[] = [];
    for (let i = 0; ; i++) {
      const offset = [0];
      const bytes = [0];
      if (this.#driver.parameter(kernel, i, offset, bytes) !== 0) return sizes;
      sizes.push(Number(bytes[0]));
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: koffi's functions take any arguments
  #out(call: (...args: any[]) => number, ...args: unknown[]): bigint {
    const out = [0n];
    this.#check(call(out, ...args));
    return BigInt(out[0]);
  }

  #check(code: number): void {
    if (code !== 0) throw new CudaError(`CUDA error ${code}`);
  }
}

function writeParameter(view: DataView, value: Parameter, bytes: number): void {
  if (value === null) view.setBigUint64(0, 0n, true);
  else if (typeof value === "bigint") view.setBigUint64(0, value, true);
  else if (typeof value === "number") {
    if (bytes === 8) view.setBigUint64(0, BigInt(value), true);
    else view.setInt32(0, value, true);
  } else if ("float" in value) view.setFloat32(0, value.float, true);
  else {
    view.setUint32(0, value.tokens, true);
    view.setUint32(4, value.tokens === 1 ? 0 : Math.floor(2 ** 32 / value.tokens) + 1, true);
  }
}
