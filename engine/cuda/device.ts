import { UnavailableError } from "../executor.ts";
import { CudaError, check, type Driver, describe, openDriver, outOfMemoryCode } from "./driver.ts";
import { foreignFunctions, type Library } from "./library.ts";

/** Memory of the device. */
export interface DeviceMemory {
  readonly address: bigint;
  readonly bytes: number;
  free(): void;
}

/** Memory of the host that the device copies from and to without another copy. */
export interface PinnedMemory {
  readonly address: bigint;
  /** Valid until `free`. */
  readonly buffer: ArrayBuffer;
  free(): void;
}

/** A captured sequence of launches. */
export interface CudaGraph {
  launch(): void;
  free(): void;
}

/** Constants of cuda.h. */
const attributes = { multiprocessors: 16, capabilityMajor: 75, capabilityMinor: 76 } as const;
const nonBlockingStream = 1;
const captureThreadLocal = 1;
const maxDynamicSharedBytes = 8;

/** bfloat16 matrix instructions and asynchronous copies need it. */
const leastCapability = 80;

/** The name that the emulator of the tests has. */
const emulatedName = "CPU emulation";

/**
 * A CUDA device with one stream, for the calling thread. Every call that may fail throws `CudaError` with the name of the error.
 */
export class Device {
  readonly library: Library;
  readonly name: string;
  /** As a number: 90 for 9.0. */
  readonly capability: number;
  readonly multiprocessors: number;
  readonly isEmulated: boolean;
  readonly stream: bigint;
  readonly #driver: Driver;
  readonly #ordinal: number;
  readonly #modules: bigint[] = [];
  /** Allocations and graphs that have not been freed. */
  readonly #allocated = new Set<{ free(): void }>();
  readonly #start: bigint;
  readonly #end: bigint;
  readonly #handle = new BigUint64Array(1);
  readonly #float = new Float32Array(1);

  /** Opens the first device. @throws UnavailableError of one line if there is no driver or no device */
  static open(): Device {
    const { library, driver } = openDriver();
    const number = new Int32Array(1);
    const code = driver.cuInit(0);
    if (code !== 0) throw new UnavailableError(`no CUDA device: ${describe(driver, code, "cuInit")}`);
    check(driver, driver.cuDeviceGetCount(number), "cuDeviceGetCount");
    if (number[0] === 0) throw new UnavailableError("no CUDA device: the driver has none");
    check(driver, driver.cuDeviceGet(number, 0), "cuDeviceGet");
    return new Device(library, driver, number[0]);
  }

  private constructor(library: Library, driver: Driver, ordinal: number) {
    this.library = library;
    this.#driver = driver;
    this.#ordinal = ordinal;
    const name = Buffer.alloc(256);
    this.#check(driver.cuDeviceGetName(name, name.length, ordinal), "cuDeviceGetName");
    this.name = name.toString("utf8", 0, name.indexOf(0));
    this.isEmulated = this.name === emulatedName;
    this.capability = 10 * this.#attribute(attributes.capabilityMajor) + this.#attribute(attributes.capabilityMinor);
    this.multiprocessors = this.#attribute(attributes.multiprocessors);
    if (this.capability < leastCapability)
      throw new UnavailableError(
        `${this.name} has compute capability ${this.capability / 10}, expected ${leastCapability / 10}.0 or later`,
      );
    // The primary context is shared by all threads of the process.
    const context = this.#out("cuDevicePrimaryCtxRetain", (out) => driver.cuDevicePrimaryCtxRetain(out, ordinal));
    this.#check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    this.stream = this.#out("cuStreamCreate", (out) => driver.cuStreamCreate(out, nonBlockingStream));
    this.#start = this.#out("cuEventCreate", (out) => driver.cuEventCreate(out, 0));
    this.#end = this.#out("cuEventCreate", (out) => driver.cuEventCreate(out, 0));
  }

  /** Version of the CUDA driver, as "13.0". */
  get driverVersion(): string {
    const version = new Int32Array(1);
    this.#check(this.#driver.cuDriverGetVersion(version), "cuDriverGetVersion");
    return `${Math.floor(version[0] / 1000)}.${Math.floor((version[0] % 1000) / 10)}`;
  }

  /** Free and total bytes of the device's memory. */
  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)];
    this.#check(this.#driver.cuMemGetInfo_v2(free, total), "cuMemGetInfo");
    return { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
  }

  /** @param purpose the contents, for the message of an error */
  allocate(bytes: number, purpose: string): DeviceMemory {
    const code = this.#driver.cuMemAlloc_v2(this.#handle, Math.max(1, bytes));
    if (code === outOfMemoryCode) {
      const free = (this.memory().freeBytes / 2 ** 30).toFixed(1);
      const needed = (bytes / 2 ** 30).toFixed(1);
      throw new CudaError(`out of memory: ${purpose} needs ${needed} GiB of ${free} GiB free on ${this.name}`, code);
    }
    this.#check(code, "cuMemAlloc");
    const address = this.#handle[0];
    return this.#tracked({ address, bytes }, () => this.#check(this.#driver.cuMemFree_v2(address), "cuMemFree"));
  }

  allocatePinned(bytes: number): PinnedMemory {
    const address = this.#out("cuMemHostAlloc", (out) => this.#driver.cuMemHostAlloc(out, bytes, 0));
    const buffer = foreignFunctions().view(address, bytes);
    return this.#tracked({ address, buffer }, () => this.#check(this.#driver.cuMemFreeHost(address), "cuMemFreeHost"));
  }

  /** Copies `bytes` from pinned memory, in the order of the stream. */
  upload(target: bigint, source: bigint, bytes: number): void {
    this.#check(this.#driver.cuMemcpyHtoDAsync_v2(target, source, bytes, this.stream), "cuMemcpyHtoDAsync");
  }

  /** Copies `bytes` to pinned memory, in the order of the stream. */
  download(target: bigint, source: bigint, bytes: number): void {
    this.#check(this.#driver.cuMemcpyDtoHAsync_v2(target, source, bytes, this.stream), "cuMemcpyDtoHAsync");
  }

  /** Copies `bytes` within the device's memory, in the order of the stream. */
  copy(target: bigint, source: bigint, bytes: number): void {
    this.#check(this.#driver.cuMemcpyDtoDAsync_v2(target, source, bytes, this.stream), "cuMemcpyDtoDAsync");
  }

  fillZero(address: bigint, bytes: number): void {
    this.#check(this.#driver.cuMemsetD8Async(address, 0, bytes, this.stream), "cuMemsetD8Async");
  }

  /** Waits until the stream has no work. */
  synchronize(): void {
    this.#check(this.#driver.cuStreamSynchronize(this.stream), "cuStreamSynchronize");
  }

  /** Runs `work`, which adds work to the stream, and waits for it. @returns its duration on the device, in milliseconds */
  timed(work: () => void): number {
    const driver = this.#driver;
    this.#check(driver.cuEventRecord(this.#start, this.stream), "cuEventRecord");
    work();
    this.#check(driver.cuEventRecord(this.#end, this.stream), "cuEventRecord");
    this.#check(driver.cuEventSynchronize(this.#end), "cuEventSynchronize");
    this.#check(driver.cuEventElapsedTime(this.#float, this.#start, this.#end), "cuEventElapsedTime");
    return this.#float[0];
  }

  /** Records the launches of `work` as a graph, without running them. */
  capture(work: () => void): CudaGraph {
    const driver = this.#driver;
    this.#check(driver.cuStreamBeginCapture_v2(this.stream, captureThreadLocal), "cuStreamBeginCapture");
    try {
      work();
    } catch (error) {
      // The stream runs nothing until the capture has ended.
      driver.cuStreamEndCapture(this.stream, this.#handle);
      throw error;
    }
    const graph = this.#out("cuStreamEndCapture", (out) => driver.cuStreamEndCapture(this.stream, out));
    const executable = this.#out("cuGraphInstantiate", (out) => driver.cuGraphInstantiateWithFlags(out, graph, 0));
    this.#check(driver.cuGraphDestroy(graph), "cuGraphDestroy");
    const launch = () => this.#check(driver.cuGraphLaunch(executable, this.stream), "cuGraphLaunch");
    return this.#tracked({ launch }, () => this.#check(driver.cuGraphExecDestroy(executable), "cuGraphExecDestroy"));
  }

  /** Loads a fatbin, machine code or PTX. @returns the address of a kernel by its name */
  loadModule(image: Uint8Array): (kernel: string) => bigint {
    const module = this.#out("cuModuleLoadData", (out) => this.#driver.cuModuleLoadData(out, image));
    this.#modules.push(module);
    return (kernel) =>
      this.#out(`cuModuleGetFunction of ${kernel}`, (out) => this.#driver.cuModuleGetFunction(out, module, kernel));
  }

  /** Allows launches of a kernel with up to this much dynamic shared memory. */
  allowSharedBytes(kernel: bigint, bytes: number): void {
    this.#check(this.#driver.cuFuncSetAttribute(kernel, maxDynamicSharedBytes, bytes), "cuFuncSetAttribute");
  }

  /**
   * @param parameters addresses of the values of a kernel's parameters, which are copied by the call
   */
  launch(
    kernel: bigint,
    grid: readonly [x: number, y: number, z: number],
    threads: number,
    sharedBytes: number,
    parameters: BigUint64Array,
  ): void {
    const [x, y, z] = grid;
    const { stream } = this;
    const code = this.#driver.cuLaunchKernel(kernel, x, y, z, threads, 1, 1, sharedBytes, stream, parameters, null);
    if (code !== 0) this.#check(code, "cuLaunchKernel");
  }

  /** Waits for the stream, and frees all memory, graphs and modules. After an error of the device only its context can be freed. */
  close(): void {
    const driver = this.#driver;
    if (driver.cuStreamSynchronize(this.stream) === 0) {
      for (const one of [...this.#allocated]) one.free();
      for (const event of [this.#start, this.#end]) this.#check(driver.cuEventDestroy_v2(event), "cuEventDestroy");
      this.#check(driver.cuStreamDestroy_v2(this.stream), "cuStreamDestroy");
      for (const module of this.#modules) this.#check(driver.cuModuleUnload(module), "cuModuleUnload");
    }
    driver.cuDevicePrimaryCtxRelease_v2(this.#ordinal);
  }

  /** Adds `free`, which `close` calls if it has not been called. */
  #tracked<Allocated extends object>(allocated: Allocated, release: () => void): Allocated & { free(): void } {
    const tracked = {
      ...allocated,
      free: () => {
        if (this.#allocated.delete(tracked)) release();
      },
    };
    this.#allocated.add(tracked);
    return tracked;
  }

  #attribute(attribute: number): number {
    const value = new Int32Array(1);
    this.#check(this.#driver.cuDeviceGetAttribute(value, attribute, this.#ordinal), "cuDeviceGetAttribute");
    return value[0];
  }

  /** The handle that a call stores in its first argument. */
  #out(call: string, run: (out: BigUint64Array) => number): bigint {
    this.#check(run(this.#handle), call);
    return this.#handle[0];
  }

  #check(code: number, call: string): void {
    if (code !== 0) check(this.#driver, code, call);
  }
}
