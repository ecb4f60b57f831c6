import { existsSync } from "node:fs";
import { ExecutorError, UnavailableError } from "../executor.ts";
import { type Functions, type Library, openLibrary } from "./library.ts";

/**
 * The functions of the CUDA driver API that the engine calls. Handles and device addresses are 64-bit integers; output arguments
 * are typed arrays of one element. A wrong prototype crashes the process, so each is declared here only.
 */
export const driverPrototypes = {
  cuInit: "int cuInit(unsigned int flags)",
  cuDriverGetVersion: "int cuDriverGetVersion(void *version)",
  cuGetErrorName: "int cuGetErrorName(int error, _Out_ const char **name)",
  cuGetErrorString: "int cuGetErrorString(int error, _Out_ const char **text)",
  cuDeviceGetCount: "int cuDeviceGetCount(void *count)",
  cuDeviceGet: "int cuDeviceGet(void *device, int ordinal)",
  cuDeviceGetName: "int cuDeviceGetName(void *name, int length, int device)",
  cuDeviceGetAttribute: "int cuDeviceGetAttribute(void *value, int attribute, int device)",
  cuDevicePrimaryCtxRetain: "int cuDevicePrimaryCtxRetain(void *context, int device)",
  cuDevicePrimaryCtxRelease_v2: "int cuDevicePrimaryCtxRelease_v2(int device)",
  cuCtxSetCurrent: "int cuCtxSetCurrent(uint64_t context)",
  cuMemGetInfo_v2: "int cuMemGetInfo_v2(void *free, void *total)",
  cuMemAlloc_v2: "int cuMemAlloc_v2(void *address, size_t bytes)",
  cuMemFree_v2: "int cuMemFree_v2(uint64_t address)",
  cuMemHostAlloc: "int cuMemHostAlloc(void *address, size_t bytes, unsigned int flags)",
  cuMemFreeHost: "int cuMemFreeHost(uint64_t address)",
  cuMemcpyHtoDAsync_v2: "int cuMemcpyHtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, uint64_t stream)",
  cuMemcpyDtoHAsync_v2: "int cuMemcpyDtoHAsync_v2(uint64_t target, uint64_t source, size_t bytes, uint64_t stream)",
  cuMemcpyDtoDAsync_v2: "int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, uint64_t stream)",
  cuMemsetD8Async: "int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, uint64_t stream)",
  cuStreamCreate: "int cuStreamCreate(void *stream, unsigned int flags)",
  cuStreamDestroy_v2: "int cuStreamDestroy_v2(uint64_t stream)",
  cuStreamSynchronize: "int cuStreamSynchronize(uint64_t stream)",
  cuStreamBeginCapture_v2: "int cuStreamBeginCapture_v2(uint64_t stream, int mode)",
  cuStreamEndCapture: "int cuStreamEndCapture(uint64_t stream, void *graph)",
  cuGraphInstantiateWithFlags: "int cuGraphInstantiateWithFlags(void *executable, uint64_t graph, uint64_t flags)",
  cuGraphLaunch: "int cuGraphLaunch(uint64_t executable, uint64_t stream)",
  cuGraphExecDestroy: "int cuGraphExecDestroy(uint64_t executable)",
  cuGraphDestroy: "int cuGraphDestroy(uint64_t graph)",
  cuEventCreate: "int cuEventCreate(void *event, unsigned int flags)",
  cuEventDestroy_v2: "int cuEventDestroy_v2(uint64_t event)",
  cuEventRecord: "int cuEventRecord(uint64_t event, uint64_t stream)",
  cuEventSynchronize: "int cuEventSynchronize(uint64_t event)",
  cuEventElapsedTime: "int cuEventElapsedTime(void *milliseconds, uint64_t start, uint64_t end)",
  cuModuleLoadData: "int cuModuleLoadData(void *module, void *image)",
  cuModuleUnload: "int cuModuleUnload(uint64_t module)",
  cuModuleGetFunction: "int cuModuleGetFunction(void *function, uint64_t module, const char *name)",
  cuFuncSetAttribute: "int cuFuncSetAttribute(uint64_t function, int attribute, int value)",
  cuLaunchKernel:
    "int cuLaunchKernel(uint64_t function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, " +
    "unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes, uint64_t stream, " +
    "void *parameters, void *extra)",
} as const;

export type Driver = Functions<keyof typeof driverPrototypes>;

/** Path of the driver library instead of the installed one. */
export const driverVariable = "KVLAB_CUDA_DRIVER";

const installed = process.platform === "win32" ? "nvcuda.dll" : "libcuda.so.1";

/** The file of the driver library. */
export const driverFile = (): string => process.env[driverVariable] || installed;

/** @throws UnavailableError of one line if there is no driver: the target cannot be used on this machine */
export function openDriver(): { readonly library: Library; readonly driver: Driver } {
  const file = driverFile();
  const library = openLibrary([file]);
  if (!library)
    throw new UnavailableError(`no CUDA driver: ${file} ${existsSync(file) ? "does not load" : "not found"}`);
  return { library, driver: library.declare(driverPrototypes) };
}

/** An error of the driver, with its code. */
export class CudaError extends ExecutorError {
  readonly code: number;

  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

export const outOfMemoryCode = 2;

/** @throws CudaError with the error's name and text if `code` is not 0 */
export function check(driver: Driver, code: number, call: string): void {
  if (code !== 0) throw new CudaError(describe(driver, code, call), code);
}

/** The message of a failed call, with the error's name and text. */
export function describe(driver: Driver, code: number, call: string): string {
  const [name, text]: [string[], string[]] = [[""], [""]];
  driver.cuGetErrorName(code, name);
  driver.cuGetErrorString(code, text);
  const reason = text[0] && text[0] !== name[0] ? ` (${text[0]})` : "";
  return `${call} failed: ${name[0] || `error ${code}`}${reason}`;
}
