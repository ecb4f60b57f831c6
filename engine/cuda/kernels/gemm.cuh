// Matrix product on tensor cores, used where cuBLAS is not found.
#pragma once

constexpr int gemm_rows = 64;
constexpr int gemm_columns = 64;
constexpr int gemm_inner = 32;
/** Padded rows of the tiles in shared memory, so that eight rows of a matrix load are in different banks. */
constexpr int gemm_a_stride = gemm_inner + 8;
constexpr int gemm_b_stride = gemm_columns + 8;

/** Eight elements of row `row` of a matrix [rows][columns] from `column`; elements outside of it are zero. */
__device__ __forceinline__ uint4 load_clipped(const bf16* matrix, int row, int column, int rows, int columns) {
  if (row >= rows || column >= columns) return make_uint4(0, 0, 0, 0);
  const bf16* from = matrix + (size_t)row * columns + column;
  if (column + 8 <= columns && columns % 8 == 0) return *(const uint4*)from;
  unsigned pairs[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    unsigned low = column + 2 * i < columns ? from[2 * i] : 0, high = column + 2 * i + 1 < columns ? from[2 * i + 1] : 0;
    pairs[i] = low | high << 16;
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/**
 * C[M][N] = A[M][K] · B[K][N], or A · Bᵀ of B[N][K] with `transposedB`; C is float32 with `outFloat`, else bf16. A block of four
 * warps computes 64×64 elements, 16 rows a warp. Sums are in ascending order of k. Grid: (N / 64, M / 64), rounded up.
 */
extern "C" __global__ void __launch_bounds__(128)
    gemm(void* C, const bf16* A, const bf16* B, int M, int N, int K, int transposedB, int outFloat) {
  __shared__ __align__(16) bf16 tileA[gemm_rows * gemm_a_stride];
  // [inner][columns], or [columns][inner] if B is transposed.
  __shared__ __align__(16) bf16 tileB[gemm_columns * gemm_a_stride];
  int firstRow = (int)blockIdx.y * gemm_rows, firstColumn = (int)blockIdx.x * gemm_columns;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float sums[gemm_columns / 8][4];
#pragma unroll
  for (int n = 0; n < gemm_columns / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;

  uint4 nextA[2], nextB[2];
  auto load_tiles = [&](int inner) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int chunk = (int)threadIdx.x + 128 * i;
      nextA[i] = load_clipped(A, firstRow + chunk / 4, inner + chunk % 4 * 8, M, K);
      nextB[i] = transposedB ? load_clipped(B, firstColumn + chunk / 4, inner + chunk % 4 * 8, N, K)
                             : load_clipped(B, inner + chunk / 8, firstColumn + chunk % 8 * 8, K, N);
    }
  };
  load_tiles(0);
  for (int inner = 0; inner < K; inner += gemm_inner) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int chunk = (int)threadIdx.x + 128 * i;
      *(uint4*)(tileA + chunk / 4 * gemm_a_stride + chunk % 4 * 8) = nextA[i];
      int atB = transposedB ? chunk / 4 * gemm_a_stride + chunk % 4 * 8 : chunk / 8 * gemm_b_stride + chunk % 8 * 8;
      *(uint4*)(tileB + atB) = nextB[i];
    }
    __syncthreads();
    if (inner + gemm_inner < K) load_tiles(inner + gemm_inner);
#pragma unroll
    for (int k = 0; k < gemm_inner; k += 16) {
      unsigned a[4];
      ldmatrix_x4(a, tileA + (warp * 16 + (lane & 15)) * gemm_a_stride + k + (lane >> 4) * 8);
#pragma unroll
      for (int n = 0; n < gemm_columns; n += 16) {
        unsigned b[4];
        if (transposedB)
          ldmatrix_x4(b, tileB + (n + (lane >> 4) * 8 + (lane & 7)) * gemm_a_stride + k + (lane >> 3 & 1) * 8);
        else
          ldmatrix_x4_trans(b, tileB + (k + (lane & 15)) * gemm_b_stride + n + (lane >> 4) * 8);
        mma_m16n8k16(sums[n / 8], a, b[0], b[1]);
        mma_m16n8k16(sums[n / 8 + 1], a, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int n = 0; n < gemm_columns / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int row = firstRow + warp * 16 + (lane >> 2) + (i >> 1) * 8;
      int column = firstColumn + n * 8 + (lane & 3) * 2 + (i & 1);
      if (row >= M || column >= N) continue;
      size_t at = (size_t)row * N + column;
      if (outFloat)
        ((float*)C)[at] = sums[n][i];
      else
        ((bf16*)C)[at] = to_bf16(sums[n][i]);
    }
  }
}
