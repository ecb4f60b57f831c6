// Rotary position embedding, normalisation of queries and keys, and the write of keys and values to their slots.
#pragma once

/**
 * table[T][D / 2] = (cos, sin) of position · inverseFrequencies[i], times `factor`. The angle is reduced to a fraction of a turn
 * in double precision: a float product loses the fraction at long contexts. Threads: one an element.
 */
extern "C" __global__ void rope_table(float2* table, const int* positions, const double* inverseFrequencies,
                                      float factor, int T, int D) {
  int half = D / 2;
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)T * half) return;
  double turns = (double)positions[i / half] * inverseFrequencies[i % half] * 0.15915494309189535;
  float sine, cosine;
  sincospif(2.0f * (float)(turns - rint(turns)), &sine, &cosine);
  table[i] = make_float2(cosine * factor, sine * factor);
}

/** Adds a pair of bias elements. */
__device__ __forceinline__ float2 with_bias(unsigned pair, const bf16* bias, int i) {
  float2 value = make_float2(low_float(pair), high_float(pair));
  if (!bias) return value;
  unsigned added = *(const unsigned*)(bias + i);
  return make_float2(value.x + low_float(added), value.y + high_float(added));
}

__device__ __forceinline__ float2 scaled(float2 value, float scale, unsigned weights) {
  return make_float2(value.x * scale * low_float(weights), value.y * scale * high_float(weights));
}

/**
 * Finishes queries, keys and values of a row [Hq + 2·Hkv][D]: adds the bias, normalises (`queryNorm`, `keyNorm`: weights [D] of
 * RMSNorm per head) and rotates queries, in place, and keys; writes keys and values to slot slots[row], unless it is −1.
 * Element i is rotated with element i + D / 2. A warp a head; grid: (T, heads / 4), 128 threads.
 */
extern "C" __global__ void __launch_bounds__(128)
    qkv_store(bf16* qkv, const bf16* bias, const bf16* queryNorm, const bf16* keyNorm, const float2* rope,
              const int* slots, bf16* keys, bf16* values, int Hq, int Hkv, int D, float eps) {
  int head = (int)blockIdx.y * 4 + (int)(threadIdx.x >> 5);
  int heads = Hq + 2 * Hkv;
  if (head >= heads) return;
  size_t row = blockIdx.x;
  int half = D / 2;
  bf16* source = qkv + (row * heads + head) * D;
  if (bias) bias += (size_t)head * D;
  bool isQuery = head < Hq, isValue = head >= Hq + Hkv;
  const bf16* norm = isQuery ? queryNorm : isValue ? nullptr : keyNorm;

  // A lane has elements 2·lane and 2·lane + 1 of both halves; for D = 256 also those 64 further on.
  float2 low[2], high[2];
  float squares = 0.0f;
#pragma unroll
  for (int step = 0; step < 2; step++) {
    int i = 2 * (int)(threadIdx.x & 31) + 64 * step;
    low[step] = high[step] = make_float2(0.0f, 0.0f);
    if (i >= half) continue;
    low[step] = with_bias(*(const unsigned*)(source + i), bias, i);
    high[step] = with_bias(*(const unsigned*)(source + half + i), bias, half + i);
    squares += low[step].x * low[step].x + low[step].y * low[step].y + high[step].x * high[step].x +
               high[step].y * high[step].y;
  }
  float scale = norm ? rsqrtf(warp_sum(squares) / (float)D + eps) : 1.0f;

  bf16* target = source;
  if (!isQuery) {
    int slot = slots[row];
    if (slot < 0) return;
    int kvHead = isValue ? head - Hq - Hkv : head - Hq;
    target = (isValue ? values : keys) + ((size_t)slot * Hkv + kvHead) * D;
  }
#pragma unroll
  for (int step = 0; step < 2; step++) {
    int i = 2 * (int)(threadIdx.x & 31) + 64 * step;
    if (i >= half) continue;
    float2 a = low[step], b = high[step];
    if (norm) {
      a = scaled(a, scale, *(const unsigned*)(norm + i));
      b = scaled(b, scale, *(const unsigned*)(norm + half + i));
    }
    if (rope && !isValue) {
      float4 turn = *(const float4*)(rope + row * half + i);
      float2 x = a, y = b;
      a = make_float2(x.x * turn.x - y.x * turn.y, x.y * turn.z - y.y * turn.w);
      b = make_float2(y.x * turn.x + x.x * turn.y, y.y * turn.z + x.y * turn.w);
    }
    *(unsigned*)(target + i) = to_pair(a.x, a.y);
    *(unsigned*)(target + half + i) = to_pair(b.x, b.y);
  }
}
