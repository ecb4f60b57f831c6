import { ExecutorError } from "../executor.ts";
import type { Device } from "./device.ts";
import { type Functions, type Library, openLibrary } from "./library.ts";
import { openToolkitLibrary } from "./toolkit.ts";

/** The functions of cuBLAS that the engine calls. */
export const cublasPrototypes = {
  cublasCreate_v2: "int cublasCreate_v2(void *handle)",
  cublasDestroy_v2: "int cublasDestroy_v2(uint64_t handle)",
  cublasGetVersion_v2: "int cublasGetVersion_v2(uint64_t handle, void *version)",
  cublasSetStream_v2: "int cublasSetStream_v2(uint64_t handle, uint64_t stream)",
  cublasSetMathMode: "int cublasSetMathMode(uint64_t handle, int mode)",
  cublasSetWorkspace_v2: "int cublasSetWorkspace_v2(uint64_t handle, uint64_t workspace, size_t bytes)",
  cublasGemmEx:
    "int cublasGemmEx(uint64_t handle, int transposeA, int transposeB, int m, int n, int k, void *alpha, " +
    "uint64_t A, int typeA, int lda, uint64_t B, int typeB, int ldb, void *beta, " +
    "uint64_t C, int typeC, int ldc, int compute, int algorithm)",
} as const;

/** Path of the cuBLAS library; "none" disables it. */
const cublasVariable = "KVLAB_CUBLAS";

/** Constants of library_types.h and cublas_api.h. */
const float32 = 0;
const bfloat16 = 14;
const computeFloat32 = 68;
const defaultAlgorithm = -1;
/** Partial sums of a product are added in float32, too, not in bfloat16. */
const fullPrecisionReduction = 16;

/** NVIDIA's advice for Hopper; a graph needs a workspace that is not allocated during capture. */
export const workspaceBytes = 32 * 2 ** 20;

/** Matrix products by cuBLAS, on a device's stream. */
export class Cublas {
  /** As major · 10000 + minor · 100 + patch. */
  readonly version: number;
  readonly #functions: Functions<keyof typeof cublasPrototypes>;
  readonly #handle: bigint;
  readonly #one = Float32Array.of(1);
  readonly #zero = Float32Array.of(0);

  /** The library, if one is installed; a driver library that exports cuBLAS has precedence. */
  static find(device: Device): Library | undefined {
    const path = process.env[cublasVariable];
    if (path === "none") return undefined;
    const own = device.library.has("cublasGemmEx") ? device.library : undefined;
    const library = path ? openLibrary([path]) : (own ?? openToolkitLibrary("cublas", ["cublasLt"]));
    if (!library && path) throw new ExecutorError(`${cublasVariable}: ${path} does not load`);
    return library;
  }

  static open(device: Device): Cublas | undefined {
    const library = Cublas.find(device);
    return library && new Cublas(device, library);
  }

  private constructor(device: Device, library: Library) {
    this.#functions = library.declare(cublasPrototypes);
    const { cublasCreate_v2, cublasGetVersion_v2, cublasSetStream_v2, cublasSetWorkspace_v2, cublasSetMathMode } =
      this.#functions;
    const handle = new BigUint64Array(1);
    checkStatus(cublasCreate_v2(handle), "cublasCreate");
    this.#handle = handle[0];
    const version = new Int32Array(1);
    checkStatus(cublasGetVersion_v2(this.#handle, version), "cublasGetVersion");
    this.version = version[0];
    const workspace = device.allocate(workspaceBytes, "the workspace of cuBLAS");
    checkStatus(cublasSetStream_v2(this.#handle, device.stream), "cublasSetStream");
    checkStatus(cublasSetMathMode(this.#handle, fullPrecisionReduction), "cublasSetMathMode");
    checkStatus(cublasSetWorkspace_v2(this.#handle, workspace.address, workspaceBytes), "cublasSetWorkspace");
  }

  /**
   * C = A · B in row-major order: [M, N] = [M, K] · [K, N], or B is [N, K] and transposed. Inputs are bf16, sums are fp32.
   *
   * cuBLAS has column-major matrices, which are our transposed ones: it computes Cᵀ = Bᵀ · Aᵀ.
   */
  multiply(
    C: bigint,
    A: bigint,
    B: bigint,
    M: number,
    N: number,
    K: number,
    transposed: boolean,
    isFloat: boolean,
  ): void {
    const status = this.#functions.cublasGemmEx(
      ...[this.#handle, transposed ? 1 : 0, 0, N, M, K, this.#one],
      ...[B, bfloat16, transposed ? K : N, A, bfloat16, K, this.#zero],
      ...[C, isFloat ? float32 : bfloat16, N, computeFloat32, defaultAlgorithm],
    );
    checkStatus(status, "cublasGemmEx");
  }

  close(): void {
    this.#functions.cublasDestroy_v2(this.#handle);
  }
}

function checkStatus(status: number, call: string): void {
  if (status !== 0) throw new ExecutorError(`${call} failed: cuBLAS status ${status}`);
}
