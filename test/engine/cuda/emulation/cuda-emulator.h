// The CUDA language for g++: kernels are compiled as plain functions that a fiber runs (fibers.h). Included first by the kernels.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fibers.h"

#define KVLAB_EMULATION 1
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ static const
#ifndef KVLAB_LIST_KERNELS
#define __global__
#define __launch_bounds__(...)
#endif

#define threadIdx (emulator::block.current->threadIndex)
#define blockIdx (emulator::block.blockIndex)
#define blockDim (emulator::block.blockSize)
#define gridDim (emulator::block.gridSize)
#define DYNAMIC_SHARED(name) unsigned char* name = emulator::block.dynamicShared

struct alignas(8) int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline int __float_as_int(float value) { return static_cast<int>(__float_as_uint(value)); }
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float exp2_approx(float x) { return exp2f(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  double angle = x * 3.141592653589793;
  *sine = static_cast<float>(sin(angle));
  *cosine = static_cast<float>(cos(angle));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
template <class T>
inline T __ldg(const T* address) {
  return *address;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline size_t min(size_t a, size_t b) { return a < b ? a : b; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
template <class T>
inline T atomicAdd(T* address, T value) {
  T old = *address;
  *address = old + value;
  return old;
}
template <class T>
inline T atomicMax(T* address, T value) {
  T old = *address;
  if (value > old) *address = value;
  return old;
}
inline int atomicCAS(int* address, int compare, int value) {
  int old = *address;
  if (old == compare) *address = value;
  return old;
}
inline void __threadfence() {}

inline void __syncthreads() { emulator::block.waitForBlock(); }

inline void __syncwarp(unsigned = ~0u) {
  emulator::block.meet(emulator::Collective::sync, "", 1, [](auto&, auto&) {});
}

namespace emulator {

template <class T>
T exchange(T value, int source) {
  struct Request {
    T value;
    int source;
  } request = {value, source};
  static_assert(sizeof request <= mailboxBytes);
  unsigned char* result = block.meet(Collective::shuffle, &request, sizeof request, [](auto& in, auto& out) {
    for (int lane = 0; lane < warpSize; lane++) {
      Request one;
      memcpy(&one, in[lane], sizeof one);
      memcpy(out[lane], in[one.source & (warpSize - 1)], sizeof(T));
    }
  });
  memcpy(&value, result, sizeof value);
  return value;
}

}  // namespace emulator

template <class T>
inline T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  int mine = emulator::block.current->lane;
  return emulator::exchange(value, (mine & ~(width - 1)) | (lane & (width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulator::exchange(value, emulator::block.current->lane ^ mask);
}
template <class T>
inline T __shfl_down_sync(unsigned, T value, unsigned delta) {
  int lane = emulator::block.current->lane, source = lane + static_cast<int>(delta);
  return emulator::exchange(value, source < emulator::warpSize ? source : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned, T value, unsigned delta) {
  int lane = emulator::block.current->lane, source = lane - static_cast<int>(delta);
  return emulator::exchange(value, source >= 0 ? source : lane);
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  unsigned bit = predicate ? 1 : 0;
  unsigned char* result =
      emulator::block.meet(emulator::Collective::vote, &bit, sizeof bit, [](auto& in, auto& out) {
        unsigned all = 0;
        for (unsigned lane = 0; lane < emulator::warpSize; lane++) all |= unsigned{in[lane][0]} << lane;
        for (int lane = 0; lane < emulator::warpSize; lane++) memcpy(out[lane], &all, sizeof all);
      });
  memcpy(&bit, result, sizeof bit);
  return bit;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

namespace emulator {

/** Fragments of a lane for mma.sync.m16n8k16: two bf16 values a register. */
struct Fragments {
  unsigned a[4];
  unsigned b[2];
  float c[4];
};

/** C[16][8] += A[16][16]·B[16][8] of a warp; products in ascending order of k. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx2", "default")))
#endif
inline void multiply(unsigned char (&in)[warpSize][mailboxBytes], unsigned char (&out)[warpSize][mailboxBytes]) {
  alignas(32) float a[16][16], b[16][8], c[16][8];
  for (int lane = 0; lane < warpSize; lane++) {
    const Fragments& mine = *reinterpret_cast<const Fragments*>(in[lane]);
    int row = lane >> 2, column = lane & 3;
    for (int i = 0; i < 4; i++) {
      float* at = &a[row + (i & 1) * 8][column * 2 + (i >> 1) * 8];
      at[0] = __uint_as_float(mine.a[i] << 16);
      at[1] = __uint_as_float(mine.a[i] & 0xffff0000u);
    }
    for (int i = 0; i < 2; i++) {
      int k = column * 2 + i * 8;
      b[k][row] = __uint_as_float(mine.b[i] << 16);
      b[k + 1][row] = __uint_as_float(mine.b[i] & 0xffff0000u);
    }
    for (int i = 0; i < 4; i++) c[row + (i >> 1) * 8][column * 2 + (i & 1)] = mine.c[i];
  }
  for (int row = 0; row < 16; row++) {
    for (int k = 0; k < 16; k++) {
      float factor = a[row][k];
      for (int column = 0; column < 8; column++) c[row][column] += factor * b[k][column];
    }
  }
  for (int lane = 0; lane < warpSize; lane++) {
    int row = lane >> 2, column = lane & 3;
    float* mine = reinterpret_cast<float*>(out[lane]);
    for (int i = 0; i < 4; i++) mine[i] = c[row + (i >> 1) * 8][column * 2 + (i & 1)];
  }
}

}  // namespace emulator

/** mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 */
inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  emulator::Fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {c[0], c[1], c[2], c[3]}};
  memcpy(c, emulator::block.meet(emulator::Collective::product, &mine, sizeof mine, emulator::multiply), sizeof c);
}

namespace emulator {

/** Loads four 8×8 matrices of 16-bit elements; lane i of each group of eight supplies the address of row i of its matrix. */
template <bool transposed>
void loadMatrices(unsigned (&out)[4], const void* row) {
  unsigned char* result = block.meet(Collective::load, &row, sizeof row, [](auto& in, auto& to) {
    for (int lane = 0; lane < warpSize; lane++) {
      for (int matrix = 0; matrix < 4; matrix++) {
        unsigned short pair[2];
        for (int i = 0; i < 2; i++) {
          int major = lane >> 2, minor = (lane & 3) * 2 + i;
          const unsigned short* address;
          memcpy(&address, in[matrix * 8 + (transposed ? minor : major)], sizeof address);
          pair[i] = address[transposed ? major : minor];
        }
        memcpy(to[lane] + matrix * 4, pair, sizeof pair);
      }
    }
  });
  if (reinterpret_cast<uintptr_t>(row) % 16) block.stop("the row of a matrix load is not aligned to 16 bytes");
  memcpy(out, result, sizeof out);
}

}  // namespace emulator

inline void ldmatrix_x4(unsigned (&out)[4], const void* row) { emulator::loadMatrices<false>(out, row); }
inline void ldmatrix_x4_trans(unsigned (&out)[4], const void* row) { emulator::loadMatrices<true>(out, row); }

// Asynchronous copies reach shared memory only when their group is waited for, the latest moment that the hardware allows.

inline void cp_async_16(void* shared, const void* global) {
  if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % 16)
    emulator::block.stop("an asynchronous copy is not aligned to 16 bytes");
  emulator::Fiber& self = *emulator::block.current;
  self.copies.push_back({shared, global, self.copyGroup});
}

inline void cp_async_commit() { emulator::block.current->copyGroup++; }

/** Waits until at most `pending` of the newest groups are not complete. */
template <int pending>
inline void cp_async_wait() {
  emulator::Fiber& self = *emulator::block.current;
  size_t left = 0;
  for (emulator::PendingCopy& copy : self.copies) {
    if (copy.group >= self.copyGroup - pending) {
      self.copies[left++] = copy;
      continue;
    }
    memcpy(copy.to, copy.from, 16);
  }
  self.copies.resize(left);
}
