// Counter-based random numbers: a function of seed and index alone.
#pragma once

/** Mixes 32 bits so that each input bit changes about half of the output bits (xorshift and multiply rounds). */
__device__ __forceinline__ unsigned mixed(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

/**
 * out[i] = mean + scale·u, u uniform in [−1, 1) with 24 bits from seed and i. Each operation is rounded separately, so that a
 * function of the host computes the same bits. A grid-stride loop: any grid.
 */
extern "C" __global__ void fill_random(bf16* out, size_t count, unsigned seed, float mean, float scale) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    unsigned bits = mixed(mixed((unsigned)i ^ seed) + (unsigned)(i >> 32));
    float u = (float)(bits >> 8) * 1.1920928955078125e-7f - 1.0f;
    out[i] = to_bf16(__fadd_rn(mean, __fmul_rn(scale, u)));
  }
}
