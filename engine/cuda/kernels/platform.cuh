// Types and instructions that the kernels share. The same sources compile with nvcc, with NVRTC (so no system header is
// included) and, for tests, with g++, where KVLAB_EMULATION is defined and these instructions are emulated.
#pragma once

typedef unsigned short bf16;

#ifndef KVLAB_EMULATION

#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

/** Matrix product of a warp: C[16][8] += A[16][16]·B[16][8], bf16 with float32 accumulation. */
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

/** Loads four 8×8 matrices from shared memory; lane i supplies the address of row i % 8 of matrix i / 8, 16-byte aligned. */
__device__ __forceinline__ void ldmatrix_x4(unsigned (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/** The same, with each matrix transposed. */
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/** Starts a copy of 16 bytes from global to shared memory. */
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

/** Ends a group of copies. */
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/** Waits until at most `pending` of the newest groups of this thread are not complete. */
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/** 2^x; denormal results are zero. */
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#endif

/** Applies a macro to each head dimension for which attention kernels exist, or to one of them alone in tests. */
#ifdef ONLY_HEAD_DIMENSION
#define APPLY(apply, D) apply(D)
#define HEAD_DIMENSIONS(apply) APPLY(apply, ONLY_HEAD_DIMENSION)
#else
#define HEAD_DIMENSIONS(apply) apply(16) apply(32) apply(48) apply(64) apply(80) apply(96) apply(128) apply(256)
#endif

constexpr unsigned all_lanes = 0xffffffffu;

constexpr float log2_e = 1.4426950408889634f;

/** Stands for minus infinity in maxima of scores: finite, so that a difference of two is not NaN. */
constexpr float lowest_score = -1e30f;

__device__ __forceinline__ float to_float(bf16 value) { return __uint_as_float((unsigned)value << 16); }

/** The two values of a register: the lower half is the first. */
__device__ __forceinline__ float low_float(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

/** Rounds to nearest, ties to even; NaN stays NaN. */
__device__ __forceinline__ bf16 to_bf16(float value) {
#if defined(__CUDA_ARCH__)
  bf16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

__device__ __forceinline__ unsigned to_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return (unsigned)to_bf16(low) | ((unsigned)to_bf16(high) << 16);
#endif
}

/** Eight values that one 16-byte load reads. */
struct Eight {
  uint4 bits;

  __device__ __forceinline__ unsigned pair(int i) const {
    return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
  }
  __device__ __forceinline__ float operator[](int i) const {
    return i & 1 ? high_float(pair(i >> 1)) : low_float(pair(i >> 1));
  }
};

__device__ __forceinline__ Eight load_eight(const bf16* address) { return {*(const uint4*)address}; }

/** Tokens of a block with the reciprocal floor(2^32 / tokens) + 1, by which division is one multiplication; 0 for 1 token. */
struct BlockSize {
  unsigned tokens;
  unsigned reciprocal;
};

/** Slot of token `token` of a sequence, through its block table. */
__device__ __forceinline__ size_t slot_of(const int* table, int token, BlockSize size) {
  unsigned block = size.reciprocal ? __umulhi((unsigned)token, size.reciprocal) : (unsigned)token;
  return (size_t)table[block] * size.tokens + ((unsigned)token - block * size.tokens);
}

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) value += __shfl_xor_sync(all_lanes, value, mask);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) value = fmaxf(value, __shfl_xor_sync(all_lanes, value, mask));
  return value;
}

/** Sum over a block of at most 1,024 threads; every thread gets the same result. `shared` has 32 elements. */
template <class T>
__device__ __forceinline__ T block_sum(T value, T* shared) {
  value = warp_sum(value);
  int warps = (int)(blockDim.x + 31) / 32;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = value;
  __syncthreads();
  T sum = 0;
  for (int i = 0; i < warps; i++) sum += shared[i];
  return sum;
}
