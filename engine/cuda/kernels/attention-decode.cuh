// Attention of decodes: one query a sequence, so that the time is that of reading keys and values once.
//
// A thread block reads a range of keys (a split) of one key head for up to G queries of its group: grid (sequences, key heads ·
// groups of G, splits), 128 threads. A key's row is read by D / 8 lanes, 16 bytes a lane; a warp reads 32 / lanes keys at once and
// has `ahead` of these loads of keys and of values in flight, with the slots of the next ones read before. Scores are in units of
// log2(e). attention_merge combines the splits; their number selects the order of sums, and so the last bits.
#pragma once

constexpr int decode_warps = 4;

template <int D, int G>
struct Decode {
  /** Lanes of one key: a power of two; for D = 48, 80 and 96 some of them have no elements. */
  static constexpr int lanes = D <= 16 ? 2 : D <= 32 ? 4 : D <= 64 ? 8 : D <= 128 ? 16 : 32;
  static constexpr int keys_at_once = 32 / lanes;
  /** Loads of keys, and as many of values, in flight a lane. */
  static constexpr int ahead = 4;
  static constexpr int keys_per_step = keys_at_once * ahead;

  // The scores of a step, query · ahead + key, are distributed over the lanes of a key: lane l has those from l · scores / lanes.
  static constexpr int scores = G * ahead;
  static constexpr int scores_per_lane = scores > lanes ? scores / lanes : 1;
  static constexpr int lanes_per_score = lanes > scores ? lanes / scores : 1;
  static constexpr int queries_per_lane = G > lanes ? G / lanes : 1;
  static constexpr int lanes_per_query = lanes > G ? lanes / G : 1;
};

/**
 * Sums `values` over groups of 2·mask lanes and distributes the sums: a lane's sums are the first of the array, as Decode says.
 * Each exchange halves the values that a lane still sums; N − 1 shuffles instead of N·log2(lanes).
 */
template <int N, int mask>
__device__ __forceinline__ void sum_and_distribute(float* values) {
  if constexpr (mask > 0) {
    constexpr int half = N > 1 ? N / 2 : 1;
    bool isUpper = threadIdx.x & mask;
#pragma unroll
    for (int i = 0; i < half; i++) {
      if constexpr (N > 1) {
        float sent = isUpper ? values[i] : values[i + half];
        float kept = isUpper ? values[i + half] : values[i];
        values[i] = kept + __shfl_xor_sync(all_lanes, sent, mask);
      } else {
        values[i] += __shfl_xor_sync(all_lanes, values[i], mask);
      }
    }
    sum_and_distribute<half, mask / 2>(values);
  }
}

/** A maximum of scores, the sum of their exponentials, and the values weighted by these, of one query: 8 elements a lane. */
struct Weighted {
  float maximum;
  float sum;
  float (&values)[8];
};

/** Adds another range of keys of the same query, from the lane that differs in `mask`. */
__device__ __forceinline__ void merge_lanes(Weighted& mine, int mask) {
  float other = __shfl_xor_sync(all_lanes, mine.maximum, mask);
  float most = fmaxf(mine.maximum, other);
  float scale = exp2_approx(mine.maximum - most);
  mine.maximum = most;
  mine.sum *= scale;
  mine.sum += __shfl_xor_sync(all_lanes, mine.sum, mask);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    mine.values[i] *= scale;
    mine.values[i] += __shfl_xor_sync(all_lanes, mine.values[i], mask);
  }
}

/** The keys of one split: a multiple of the keys that the block reads at once, except for the last. */
struct Range {
  int begin;
  int end;
};

__device__ __forceinline__ Range split_of(int context, int window, int step, int splits) {
  int first = window ? max(0, context - window) : 0;
  int steps = (context - first + step - 1) / step;
  int perSplit = (steps + splits - 1) / splits * step;
  int begin = first + (int)blockIdx.z * perSplit;
  return {begin, min(context, begin + perSplit)};
}

template <int D, int G>
__device__ __forceinline__ void decode_attention(float* partial, float2* partialMaxSum, const bf16* q, int qStride,
                                                 const bf16* keys, const bf16* values, const int* sequences,
                                                 const int* cuSeqlensQ, const int* contextLens, const int* tables,
                                                 int tableStride, BlockSize size, int Hq, int Hkv, int splits,
                                                 float scale, int window, const float* slopes) {
  using Shape = Decode<D, G>;
  constexpr int lanes = Shape::lanes, ahead = Shape::ahead;
  __shared__ float sharedValues[decode_warps][G][D];
  __shared__ float2 sharedMaxSum[decode_warps][G];

  int sequence = sequences[blockIdx.x];
  int context = contextLens[sequence];
  const int* table = tables + (size_t)sequence * tableStride;
  int group = Hq / Hkv, groupsOfG = (group + G - 1) / G;
  int kvHead = (int)blockIdx.y / groupsOfG;
  int firstQuery = (int)blockIdx.y % groupsOfG * G, queryCount = min(G, group - firstQuery);
  int firstHead = kvHead * group + firstQuery;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int column = lane % lanes * 8, keyInWarp = lane / lanes;
  bool hasElements = column < D;
  q += (size_t)cuSeqlensQ[sequence] * qStride + (size_t)firstHead * D + column;
  keys += kvHead * D + (hasElements ? column : 0);
  values += kvHead * D + (hasElements ? column : 0);
  size_t slotElements = (size_t)Hkv * D;

  float query[G][8], weighted[G][8];
#pragma unroll
  for (int g = 0; g < G; g++) {
    bool isPresent = g < queryCount && hasElements;
    Eight loaded = isPresent ? load_eight(q + g * D) : Eight{make_uint4(0, 0, 0, 0)};
#pragma unroll
    for (int i = 0; i < 8; i++) {
      query[g][i] = loaded[i] * (scale * log2_e);
      weighted[g][i] = 0.0f;
    }
  }
  // Of the queries whose scores this lane has: maximum, sum of this lane's exponentials, slope of ALiBi.
  constexpr int own = Shape::queries_per_lane;
  float maximum[own], sum[own], slope[own];
  int firstScore = lane % lanes * Shape::scores / lanes;
#pragma unroll
  for (int n = 0; n < own; n++) {
    int g = firstScore / ahead + n;
    maximum[n] = lowest_score;
    sum[n] = 0.0f;
    slope[n] = slopes && g < queryCount ? slopes[firstHead + g] * log2_e : 0.0f;
  }

  Range range = split_of(context, window, Shape::keys_per_step * decode_warps, splits);
  auto key_of = [&](int first, int i) { return first + i * Shape::keys_at_once + keyInWarp; };
  // Past the end, the last key is read again, and its score is masked.
  auto slot_at = [&](int key) { return (int)slot_of(table, min(key, range.end - 1), size); };

  int stride = Shape::keys_per_step * decode_warps;
  int first = range.begin + warp * Shape::keys_per_step;
  int slots[ahead];
#pragma unroll
  for (int i = 0; i < ahead; i++) slots[i] = range.begin < range.end ? slot_at(key_of(first, i)) : 0;
  for (; first < range.end; first += stride) {
    Eight keyRow[ahead], valueRow[ahead];
#pragma unroll
    for (int i = 0; i < ahead; i++) keyRow[i] = load_eight(keys + slots[i] * slotElements);
#pragma unroll
    for (int i = 0; i < ahead; i++) valueRow[i] = load_eight(values + slots[i] * slotElements);
#pragma unroll
    for (int i = 0; i < ahead; i++) slots[i] = slot_at(key_of(first + stride, i));

    float scores[Shape::scores];
#pragma unroll
    for (int i = 0; i < ahead; i++) {
#pragma unroll
      for (int g = 0; g < G; g++) {
        float score = 0.0f;
#pragma unroll
        for (int j = 0; j < 8; j++) score = fmaf(query[g][j], keyRow[i][j], score);
        scores[g * ahead + i] = score;
      }
    }
    sum_and_distribute<Shape::scores, lanes / 2>(scores);

    float factor[own];
    bool isChanged = false;
#pragma unroll
    for (int n = 0; n < own; n++) {
      constexpr int perQuery = Shape::scores_per_lane / own;
      float* mine = scores + n * perQuery;
      float most = maximum[n];
#pragma unroll
      for (int r = 0; r < perQuery; r++) {
        int key = key_of(first, (firstScore + n * perQuery + r) % ahead);
        mine[r] = key < range.end ? fmaf(slope[n], (float)(key - context + 1), mine[r]) : lowest_score;
        most = fmaxf(most, mine[r]);
      }
#pragma unroll
      for (int mask = 1; mask < Shape::lanes_per_query; mask <<= 1)
        most = fmaxf(most, __shfl_xor_sync(all_lanes, most, mask));
      factor[n] = exp2_approx(maximum[n] - most);
      isChanged = isChanged || most != maximum[n];
      maximum[n] = most;
      sum[n] *= factor[n];
#pragma unroll
      for (int r = 0; r < perQuery; r++) {
        mine[r] = mine[r] == lowest_score ? 0.0f : exp2_approx(mine[r] - most);
        sum[n] += mine[r];
      }
    }
    // Maxima change seldom after the first keys; a factor of 1 changes no bit.
    if (__any_sync(all_lanes, isChanged)) {
#pragma unroll
      for (int g = 0; g < G; g++) {
        float scaleOld = __shfl_sync(all_lanes, factor[g % own], g * lanes / G, lanes);
#pragma unroll
        for (int j = 0; j < 8; j++) weighted[g][j] *= scaleOld;
      }
    }
#pragma unroll
    for (int i = 0; i < ahead; i++) {
#pragma unroll
      for (int g = 0; g < G; g++) {
        int score = g * ahead + i;
        float mine = scores[score % Shape::scores_per_lane];
        float weight = __shfl_sync(all_lanes, mine, score * lanes / Shape::scores, lanes);
#pragma unroll
        for (int j = 0; j < 8; j++) weighted[g][j] = fmaf(weight, valueRow[i][j], weighted[g][j]);
      }
    }
  }

#pragma unroll
  for (int n = 0; n < own; n++) {
#pragma unroll
    for (int mask = 1; mask < Shape::lanes_per_query; mask <<= 1)
      sum[n] += __shfl_xor_sync(all_lanes, sum[n], mask);
    // Lanes with the same score have all added it.
    sum[n] *= 1.0f / (float)Shape::lanes_per_score;
  }
#pragma unroll
  for (int g = 0; g < G; g++) {
    Weighted state = {__shfl_sync(all_lanes, maximum[g % own], g * lanes / G, lanes),
                      __shfl_sync(all_lanes, sum[g % own], g * lanes / G, lanes), weighted[g]};
#pragma unroll
    for (int mask = lanes; mask < 32; mask <<= 1) merge_lanes(state, mask);
    if (lane < lanes && hasElements) {
#pragma unroll
      for (int i = 0; i < 8; i++) sharedValues[warp][g][column + i] = state.values[i];
    }
    if (lane == 0) sharedMaxSum[warp][g] = make_float2(state.maximum, state.sum);
  }
  __syncthreads();

  for (int i = threadIdx.x; i < queryCount * D; i += decode_warps * 32) {
    int g = i / D, element = i % D;
    float most = lowest_score;
#pragma unroll
    for (int w = 0; w < decode_warps; w++) most = fmaxf(most, sharedMaxSum[w][g].x);
    float sum = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < decode_warps; w++) {
      float factor = exp2_approx(sharedMaxSum[w][g].x - most);
      sum = fmaf(factor, sharedMaxSum[w][g].y, sum);
      value = fmaf(factor, sharedValues[w][g][element], value);
    }
    size_t at = ((size_t)blockIdx.x * Hq + firstHead + g) * splits + blockIdx.z;
    partial[at * D + element] = value;
    if (element == 0) partialMaxSum[at] = make_float2(most, sum);
  }
}

/**
 * Combines the splits of each head of a decode: partial[sequences][Hq][splits][D]. A split's row is read by D / 4 lanes, 16 bytes a
 * lane, and as many splits at once as the block has rows of lanes: their number and so the order of sums depends on D and splits
 * alone. Grid: (sequences, Hq), at most 256 threads, at least D / 4.
 */
extern "C" __global__ void __launch_bounds__(256)
    attention_merge(bf16* __restrict__ out, const float* __restrict__ partial, const float2* __restrict__ partialMaxSum,
                    const int* __restrict__ sequences, const int* __restrict__ cuSeqlensQ, int Hq, int D, int splits) {
  __shared__ float4 sums[256];
  size_t first = ((size_t)blockIdx.x * Hq + blockIdx.y) * splits;
  partial += first * D;
  partialMaxSum += first;
  size_t row = cuSeqlensQ[sequences[blockIdx.x]];
  int lane = threadIdx.x & 31;
  // Each warp computes the maximum and the sum of exponentials, a lane a split.
  float most = lowest_score, sum = 0.0f;
  for (int split = lane; split < splits; split += 32) most = fmaxf(most, partialMaxSum[split].x);
  most = warp_max(most);
  for (int split = lane; split < splits; split += 32) {
    float2 maxSum = partialMaxSum[split];
    sum = fmaf(exp2_approx(maxSum.x - most), maxSum.y, sum);
  }
  sum = warp_sum(sum);

  int width = D / 4, column = (int)threadIdx.x % width, group = (int)threadIdx.x / width;
  int groups = (int)blockDim.x / width;
  float4 value = make_float4(0, 0, 0, 0);
  if (group < groups) {
#pragma unroll 8
    for (int split = group; split < splits; split += groups) {
      float factor = exp2_approx(partialMaxSum[split].x - most);
      float4 read = *(const float4*)(partial + (size_t)split * D + 4 * column);
      value.x = fmaf(factor, read.x, value.x);
      value.y = fmaf(factor, read.y, value.y);
      value.z = fmaf(factor, read.z, value.z);
      value.w = fmaf(factor, read.w, value.w);
    }
    sums[threadIdx.x] = value;
  }
  __syncthreads();
  const float* elements = (const float*)sums;
  for (int i = threadIdx.x; i < D; i += blockDim.x) {
    float total = 0.0f;
    for (int n = 0; n < min(groups, splits); n++) total += elements[n * D + i];
    out[(row * Hq + blockIdx.y) * D + i] = to_bf16(total / sum);
  }
}

#define ATTENTION_DECODE(D, G)                                                                                       \
  extern "C" __global__ void __launch_bounds__(128, G < 4 ? 4 : G < 8 ? 3 : 2) attention_decode_d##D##_g##G(                   \
      float* partial, float2* partialMaxSum, const bf16* q, int qStride, const bf16* keys, const bf16* values,       \
      const int* sequences, const int* cuSeqlensQ, const int* contextLens, const int* tables, int tableStride,       \
      BlockSize size, int Hq, int Hkv, int splits, float scale, int window, const float* slopes) {                   \
    decode_attention<D, G>(partial, partialMaxSum, q, qStride, keys, values, sequences, cuSeqlensQ, contextLens,     \
                           tables, tableStride, size, Hq, Hkv, splits, scale, window, slopes);                       \
  }
#define ATTENTION_DECODE_GROUPS(D) \
  ATTENTION_DECODE(D, 1) ATTENTION_DECODE(D, 2) ATTENTION_DECODE(D, 4) ATTENTION_DECODE(D, 8)

HEAD_DIMENSIONS(ATTENTION_DECODE_GROUPS)
#undef ATTENTION_DECODE
#undef ATTENTION_DECODE_GROUPS
