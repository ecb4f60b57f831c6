// Residual addition with the normalisation that follows it. One block a row, which is in the registers of its threads: a thread
// loads all its inputs before it uses the first, and stores the residual stream once.
#pragma once

/** Eights of a row that one thread has, blockDim.x · 8 elements apart: rows of up to 16,384 elements with 1,024 threads. */
constexpr int norm_eights = 2;

/** Whether all eight elements from `i` of a row are loaded and stored as vectors; rows of other widths are not aligned. */
__device__ __forceinline__ bool is_vector(int i, int H) { return H % 8 == 0 && i < H; }

/** Eight elements of a row from `i`; elements past its end are 0. */
__device__ __forceinline__ Eight load_row(const bf16* row, int i, int H) {
  if (is_vector(i, H)) return load_eight(row + i);
  unsigned pairs[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    unsigned low = i + 2 * j < H ? row[i + 2 * j] : 0, high = i + 2 * j + 1 < H ? row[i + 2 * j + 1] : 0;
    pairs[j] = low | high << 16;
  }
  return {make_uint4(pairs[0], pairs[1], pairs[2], pairs[3])};
}

__device__ __forceinline__ void load_row(float (&values)[8], const float* row, int i, int H) {
  if (is_vector(i, H)) {
    float4 low = *(const float4*)(row + i), high = *(const float4*)(row + i + 4);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; j++) values[j] = i + j < H ? row[i + j] : 0.0f;
}

__device__ __forceinline__ void store_row(bf16* row, const float (&values)[8], int i, int H) {
  if (is_vector(i, H)) {
    *(uint4*)(row + i) = make_uint4(to_pair(values[0], values[1]), to_pair(values[2], values[3]),
                                    to_pair(values[4], values[5]), to_pair(values[6], values[7]));
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (i + j < H) row[i + j] = to_bf16(values[j]);
}

__device__ __forceinline__ void store_row(float* row, const float (&values)[8], int i, int H) {
  if (is_vector(i, H)) {
    *(float4*)(row + i) = make_float4(values[0], values[1], values[2], values[3]);
    *(float4*)(row + i + 4) = make_float4(values[4], values[5], values[6], values[7]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (i + j < H) row[i + j] = values[j];
}

/** The elements of a row of the residual stream that one thread has, with the weights of the norm. */
struct NormRow {
  float values[norm_eights][8];
  Eight weights[norm_eights];

  __device__ __forceinline__ static int first(int n) { return (n * (int)blockDim.x + (int)threadIdx.x) * 8; }

  /** Loads x, and adds `add` and `addBias`, which may be absent. */
  __device__ __forceinline__ void load(const float* __restrict__ x, const bf16* __restrict__ add,
                                       const bf16* __restrict__ addBias, const bf16* __restrict__ weight, int H) {
    Eight added[norm_eights], bias[norm_eights];
#pragma unroll
    for (int n = 0; n < norm_eights; n++) {
      load_row(values[n], x, first(n), H);
      added[n] = add ? load_row(add, first(n), H) : Eight{make_uint4(0, 0, 0, 0)};
      bias[n] = add && addBias ? load_row(addBias, first(n), H) : Eight{make_uint4(0, 0, 0, 0)};
      weights[n] = load_row(weight, first(n), H);
    }
#pragma unroll
    for (int n = 0; n < norm_eights; n++)
#pragma unroll
      for (int j = 0; j < 8; j++) values[n][j] += added[n][j] + bias[n][j];
  }

  template <class T>
  __device__ __forceinline__ void store(T* __restrict__ row, int H) const {
#pragma unroll
    for (int n = 0; n < norm_eights; n++) store_row(row, values[n], first(n), H);
  }
};

/**
 * RMSNorm: x += add + addBias; out = x / rms(x) · weight. With `rows`, output row i is that of input row rows[i]. Grid: rows; at
 * least H / 16 threads.
 */
extern "C" __global__ void __launch_bounds__(1024)
    rms_norm(bf16* __restrict__ out, float* __restrict__ x, const bf16* __restrict__ add,
             const bf16* __restrict__ addBias, const bf16* __restrict__ weight, const int* __restrict__ rows, int H,
             float eps) {
  __shared__ float sums[32];
  size_t row = rows ? (size_t)rows[blockIdx.x] : blockIdx.x;
  x += row * H;
  if (add) add += row * H;
  NormRow mine;
  mine.load(x, add, addBias, weight, H);
  if (add) mine.store(x, H);
  float squares = 0.0f;
#pragma unroll
  for (int n = 0; n < norm_eights; n++)
#pragma unroll
    for (int j = 0; j < 8; j++) squares = fmaf(mine.values[n][j], mine.values[n][j], squares);
  float scale = rsqrtf(block_sum(squares, sums) / (float)H + eps);
#pragma unroll
  for (int n = 0; n < norm_eights; n++)
#pragma unroll
    for (int j = 0; j < 8; j++) mine.values[n][j] *= scale * mine.weights[n][j];
  mine.store(out + (size_t)blockIdx.x * H, H);
}

/**
 * LayerNorm: x += add + addBias; out = (x − mean) / deviation · weight + bias. Without `out` the result is stored in x. Grid: rows;
 * at least H / 16 threads.
 */
extern "C" __global__ void __launch_bounds__(1024)
    layer_norm(bf16* __restrict__ out, float* __restrict__ x, const bf16* __restrict__ add,
               const bf16* __restrict__ addBias, const bf16* __restrict__ weight, const bf16* __restrict__ bias,
               const int* __restrict__ rows, int H, float eps) {
  __shared__ float sums[32];
  size_t row = rows ? (size_t)rows[blockIdx.x] : blockIdx.x;
  x += row * H;
  if (add) add += row * H;
  NormRow mine;
  mine.load(x, add, addBias, weight, H);
  if (add && out) mine.store(x, H);
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < norm_eights; n++)
#pragma unroll
    for (int j = 0; j < 8; j++) sum += mine.values[n][j];
  float mean = block_sum(sum, sums) / (float)H;
  float squares = 0.0f;
#pragma unroll
  for (int n = 0; n < norm_eights; n++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float deviation = NormRow::first(n) + j < H ? mine.values[n][j] - mean : 0.0f;
      squares = fmaf(deviation, deviation, squares);
    }
  float scale = rsqrtf(block_sum(squares, sums) / (float)H + eps);
#pragma unroll
  for (int n = 0; n < norm_eights; n++) {
    Eight added = bias ? load_row(bias, NormRow::first(n), H) : Eight{make_uint4(0, 0, 0, 0)};
#pragma unroll
    for (int j = 0; j < 8; j++) mine.values[n][j] = (mine.values[n][j] - mean) * scale * mine.weights[n][j] + added[j];
  }
  if (out)
    mine.store(out + (size_t)blockIdx.x * H, H);
  else
    mine.store(x, H);
}
