// Residual addition with the normalisation that follows it. One block a row; the row is read twice and stays in the L1 cache.
#pragma once

/** Adds `add` and `addBias` to a row of the residual stream and stores it. */
__device__ __forceinline__ float residual(float* x, const bf16* add, const bf16* addBias, int i) {
  float value = x[i];
  if (!add) return value;
  value += to_float(add[i]);
  if (addBias) value += to_float(addBias[i]);
  x[i] = value;
  return value;
}

/** RMSNorm: x += add + addBias; out = x / rms(x) · weight. With `rows`, output row i is that of input row rows[i]. Grid: rows. */
extern "C" __global__ void __launch_bounds__(1024)
    rms_norm(bf16* out, float* x, const bf16* add, const bf16* addBias, const bf16* weight, const int* rows, int H,
             float eps) {
  __shared__ float sums[32];
  size_t row = rows ? (size_t)rows[blockIdx.x] : blockIdx.x;
  x += row * H;
  if (add) add += row * H;
  out += (size_t)blockIdx.x * H;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < H; i += blockDim.x) {
    float value = residual(x, add, addBias, i);
    squares += value * value;
  }
  float scale = rsqrtf(block_sum(squares, sums) / (float)H + eps);
  for (int i = threadIdx.x; i < H; i += blockDim.x) out[i] = to_bf16(x[i] * scale * to_float(weight[i]));
}

/** LayerNorm: x += add + addBias; out = (x − mean) / deviation · weight + bias. Without `out` the result is stored in x. */
extern "C" __global__ void __launch_bounds__(1024)
    layer_norm(bf16* out, float* x, const bf16* add, const bf16* addBias, const bf16* weight, const bf16* bias,
               const int* rows, int H, float eps) {
  __shared__ float sums[32];
  size_t row = rows ? (size_t)rows[blockIdx.x] : blockIdx.x;
  x += row * H;
  if (add) add += row * H;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < H; i += blockDim.x) sum += residual(x, add, addBias, i);
  float mean = block_sum(sum, sums) / (float)H;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < H; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  float scale = rsqrtf(block_sum(squares, sums) / (float)H + eps);
  for (int i = threadIdx.x; i < H; i += blockDim.x) {
    float value = (x[i] - mean) * scale * to_float(weight[i]) + (bias ? to_float(bias[i]) : 0.0f);
    if (out)
      out[(size_t)blockIdx.x * H + i] = to_bf16(value);
    else
      x[i] = value;
  }
}
