// Copies of whole blocks of the pool. A layer's keys of one block are `blockElements` consecutive elements, a multiple of 8; layers
// are `layerElements` apart. Grid: (blocks or pairs, layers).
#pragma once

__device__ __forceinline__ void copy_elements(bf16* to, const bf16* from, size_t count) {
  for (size_t i = threadIdx.x; i < count / 8; i += blockDim.x) ((uint4*)to)[i] = ((const uint4*)from)[i];
}

/** Copies block pairs[i].x to block pairs[i].y. The pairs of one launch are independent of each other. */
extern "C" __global__ void copy_blocks(bf16* keys, bf16* values, const int2* pairs, size_t blockElements,
                                       size_t layerElements) {
  int2 pair = pairs[blockIdx.x];
  size_t layer = blockIdx.y * layerElements;
  size_t from = layer + (size_t)pair.x * blockElements, to = layer + (size_t)pair.y * blockElements;
  copy_elements(keys + to, keys + from, blockElements);
  copy_elements(values + to, values + from, blockElements);
}

/** Offset in the staging buffer [block][keys, values][layer][blockElements] of this thread block's keys. */
__device__ __forceinline__ size_t staging_offset(size_t blockElements, int layers) {
  return ((size_t)blockIdx.x * 2 * layers + blockIdx.y) * blockElements;
}

/** Copies blocks of the pool to the staging buffer. */
extern "C" __global__ void gather_blocks(bf16* staging, const bf16* keys, const bf16* values, const int* blocks,
                                         size_t blockElements, size_t layerElements, int layers) {
  size_t from = blockIdx.y * layerElements + (size_t)blocks[blockIdx.x] * blockElements;
  size_t to = staging_offset(blockElements, layers);
  copy_elements(staging + to, keys + from, blockElements);
  copy_elements(staging + to + layers * blockElements, values + from, blockElements);
}

/** Copies the staging buffer to blocks of the pool. */
extern "C" __global__ void scatter_blocks(const bf16* staging, bf16* keys, bf16* values, const int* blocks,
                                          size_t blockElements, size_t layerElements, int layers) {
  size_t to = blockIdx.y * layerElements + (size_t)blocks[blockIdx.x] * blockElements;
  size_t from = staging_offset(blockElements, layers);
  copy_elements(keys + to, staging + from, blockElements);
  copy_elements(values + to, staging + from + layers * blockElements, blockElements);
}
