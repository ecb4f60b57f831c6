import { Cublas } from "../../engine/cuda/cublas.ts";
import { Device } from "../../engine/cuda/device.ts";
import { loadKernels } from "../../engine/cuda/kernel-image.ts";
import { Launches } from "../../engine/cuda/launches.ts";
import { fromBfloat16 } from "../../engine/model/floats.ts";
import { randomConfig } from "../../engine/model/random.ts";
import { blockTokens } from "../../lab/calibrate/profile/batch-steps.ts";

/** Rows, columns and inputs of the products that are compared; partial tiles included. */
const shapes = [
  [1, 96, 64],
  [7, 512, 96],
  [130, 200, 136],
] as const;
/** Too large for the emulator. */
const largeShapes = [
  [33, 4096, 4096],
  [512, 6144, 4096],
] as const;

/** Errors of one product, relative to the largest expected number. */
export interface ProductErrors {
  readonly M: number;
  readonly N: number;
  readonly K: number;
  readonly transposed: boolean;
  readonly ownAgainstHost: number | null;
  readonly cublasAgainstHost: number | null;
  readonly ownAgainstCublas: number | null;
}

/** Products by our own kernel, by cuBLAS if there is one, and for small shapes on the host, all from equal bf16 inputs. */
export function compareProducts(): { readonly cublas: number | null; readonly products: readonly ProductErrors[] } {
  const device = Device.open();
  const cublas = Cublas.open(device);
  try {
    const launches = new Launches(device, loadKernels(device), randomConfig("tiny"), blockTokens);
    const all = device.isEmulated ? shapes : [...shapes, ...largeShapes];
    const products = all.flatMap(([M, N, K]) =>
      [false, true].map((transposed): ProductErrors => {
        const [A, B, C] = [2 * M * K, 2 * K * N, 4 * M * N].map((bytes) => device.allocate(bytes, "a product"));
        launches.fillRandom(A.address, M * K, 1, 0, 1);
        launches.fillRandom(B.address, K * N, 2, 0, 1);
        const run = (by: Pick<Launches, "multiply">) => {
          by.multiply(C.address, A.address, B.address, M, N, K, transposed, true);
          return new Float32Array(downloaded(device, C.address, C.bytes));
        };
        const own = run(launches);
        const library = cublas && run(cublas);
        const isSmall = M * N * K < 1e7;
        const read = (from: typeof A) => floats(new Uint16Array(downloaded(device, from.address, from.bytes)));
        const host = isSmall ? productOf(read(A), read(B), M, N, K, transposed) : undefined;
        for (const each of [A, B, C]) each.free();
        return {
          ...{ M, N, K, transposed },
          ownAgainstHost: host ? errorOf(own, host) : null,
          cublasAgainstHost: host && library ? errorOf(library, host) : null,
          ownAgainstCublas: library ? errorOf(own, library) : null,
        };
      }),
    );
    return { cublas: cublas?.version ?? null, products };
  } finally {
    cublas?.close();
    device.close();
  }
}

function downloaded(device: Device, address: bigint, bytes: number): ArrayBuffer {
  const pinned = device.allocatePinned(bytes);
  device.download(pinned.address, address, bytes);
  device.synchronize();
  const copy = pinned.buffer.slice(0, bytes);
  pinned.free();
  return copy;
}

function floats(bits: Uint16Array): Float32Array {
  const into = new Float32Array(bits.length);
  fromBfloat16(bits, into);
  return into;
}

/** A · B in 64-bit floats; B is [K, N], or [N, K] if it is transposed. */
function productOf(A: Float32Array, B: Float32Array, M: number, N: number, K: number, transposed: boolean) {
  const C = new Float32Array(M * N);
  for (let row = 0; row < M; row++)
    for (let column = 0; column < N; column++) {
      let sum = 0;
      for (let k = 0; k < K; k++) sum += A[row * K + k] * (transposed ? B[column * K + k] : B[k * N + column]);
      C[row * N + column] = sum;
    }
  return C;
}

function errorOf(found: Float32Array, expected: Float32Array): number {
  let [difference, magnitude] = [0, 0];
  for (let i = 0; i < expected.length; i++) {
    const each = Math.abs(found[i] - expected[i]);
    if (Number.isNaN(each)) return Number.NaN;
    difference = Math.max(difference, each);
    magnitude = Math.max(magnitude, Math.abs(expected[i]));
  }
  return difference / magnitude;
}
