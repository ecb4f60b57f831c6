// A kernel that only reads, for measurements of the device.
#pragma once

/**
 * out[block] = exclusive or of the words that the block reads, 16 bytes each: the bandwidth of reads alone. A grid-stride loop with
 * four loads in flight a thread; any grid, at most 512 threads.
 */
extern "C" __global__ void __launch_bounds__(512)
    xor_words(unsigned* __restrict__ out, const uint4* __restrict__ words, size_t count) {
  __shared__ unsigned warps[16];
  size_t stride = (size_t)gridDim.x * blockDim.x;
  unsigned mine = 0;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * stride) {
    uint4 loaded[4];
#pragma unroll
    for (int n = 0; n < 4; n++) loaded[n] = i + n * stride < count ? words[i + n * stride] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int n = 0; n < 4; n++) mine ^= loaded[n].x ^ loaded[n].y ^ loaded[n].z ^ loaded[n].w;
  }
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) mine ^= __shfl_xor_sync(all_lanes, mine, mask);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = mine;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int warp = 1; warp < (int)blockDim.x / 32; warp++) mine ^= warps[warp];
  out[blockIdx.x] = mine;
}
