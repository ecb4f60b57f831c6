// Attention of prefill chunks over cached prefixes: flash attention on tensor cores, keys and values read through the block table.
//
// A thread block computes 64 queries of one head, 16 queries a warp, over tiles of 64 keys that start at multiples of 64. A row's
// result is the same for any chunk and any cached prefix: its keys are always in the same tiles, and a masked key adds zero.
// The copy of a tile's values overlaps the product with its keys; the copy of the next keys overlaps softmax and the product with
// the values. Scores are in units of log2(e), so that exponentials are powers of two. Grid: (Hq, tiles), 128 threads.
#pragma once

constexpr int tile_queries = 64;
constexpr int tile_keys = 64;

/** Head dimensions above this one read queries from shared memory for each tile: as registers they would spill. */
constexpr int register_queries = 128;

template <int D>
struct PrefillShared {
  /** Padded, so that eight rows of a matrix load are in different banks. */
  static constexpr int stride = D + 8;
  static constexpr int tile_bytes = tile_keys * stride * 2;
  static constexpr int bytes = (D > register_queries ? 3 : 2) * tile_bytes + 2 * tile_keys * 4;
};

/** Starts the copies of 64 rows of D elements. Row i of the tile is row rowOf(i) of the source, whose rows are rowBytes apart. */
template <int D, class RowOf>
__device__ __forceinline__ void copy_tile(bf16* tile, const bf16* source, unsigned rowBytes, RowOf rowOf) {
  constexpr int chunks = D / 8;
// Unrolled further, the addresses would cause spills.
#pragma unroll 4
  for (int step = 0; step < tile_keys * chunks / 128; step++) {
    // Where a step copies whole rows, addresses of the steps differ by constants.
    constexpr bool isWhole = 128 % chunks == 0;
    unsigned i = isWhole ? threadIdx.x : step * 128 + threadIdx.x;
    int row = (int)(i / chunks) + (isWhole ? step * (128 / chunks) : 0), column = (int)(i % chunks) * 8;
    const char* from = (const char*)(source + column) + (size_t)(unsigned)rowOf(row) * rowBytes;
    cp_async_16(tile + row * PrefillShared<D>::stride + column, from);
  }
}

/** The queries of a warp as operands of matrix products, [D / 16] of 16×16. */
template <int D>
struct Queries {
  unsigned fragments[D > register_queries ? 1 : D / 16][4];
  const bf16* row;

  /** Rows `first` and `first + 8` of this lane's fragments; rows outside [0, count) are zero. */
  __device__ __forceinline__ void load(const bf16* q, size_t stride, int first, int count) {
    int column = (int)(threadIdx.x & 3) * 2;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int at = first + (i & 1) * 8;
        fragments[k][i] = at < count ? *(const unsigned*)(q + at * stride + k * 16 + column + (i >> 1) * 8) : 0u;
      }
    }
  }

  __device__ __forceinline__ void get(unsigned (&out)[4], int k) const {
    if constexpr (D > register_queries) {
      ldmatrix_x4(out, row + k * 16);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) out[i] = fragments[k][i];
    }
  }
};

/** scores[16][64] = queries · keysᵀ. */
template <int D>
__device__ __forceinline__ void multiply_keys(float (&scores)[tile_keys / 8][4], const Queries<D>& queries,
                                              const bf16* keys) {
  int lane = threadIdx.x & 31;
  const bf16* row = keys + ((lane >> 4) * 8 + (lane & 7)) * PrefillShared<D>::stride + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int n = 0; n < tile_keys / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) scores[n][i] = 0.0f;
#pragma unroll
  for (int k = 0; k < D / 16; k++) {
    unsigned a[4];
    queries.get(a, k);
#pragma unroll
    for (int n = 0; n < tile_keys / 16; n++) {
      unsigned b[4];
      ldmatrix_x4(b, row + n * 16 * PrefillShared<D>::stride + k * 16);
      mma_m16n8k16(scores[2 * n], a, b[0], b[1]);
      mma_m16n8k16(scores[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/** out[16][D] += probabilities[16][64] · values[64][D]. */
template <int D>
__device__ __forceinline__ void multiply_values(float (&out)[D / 8][4], const float (&probabilities)[tile_keys / 8][4],
                                                const bf16* values) {
  int lane = threadIdx.x & 31;
  const bf16* row = values + (lane & 15) * PrefillShared<D>::stride + (lane >> 4) * 8;
#pragma unroll
  for (int k = 0; k < tile_keys / 16; k++) {
    const float(&left)[4] = probabilities[2 * k];
    const float(&right)[4] = probabilities[2 * k + 1];
    unsigned a[4] = {to_pair(left[0], left[1]), to_pair(left[2], left[3]), to_pair(right[0], right[1]),
                     to_pair(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
      unsigned b[4];
      ldmatrix_x4_trans(b, row + k * 16 * PrefillShared<D>::stride + n * 16);
      mma_m16n8k16(out[2 * n], a, b[0], b[1]);
      mma_m16n8k16(out[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/** Maximum and sum of exponentials of the two rows of a lane: rows r and r + 8 of its warp's 16. */
struct RowState {
  float maximum[2];
  float sum[2];
};

/** Replaces scores by exponentials relative to the new row maxima; returns the factors for what was summed before. */
__device__ __forceinline__ float2 softmax_tile(float (&scores)[tile_keys / 8][4], RowState& rows, float unit) {
  float scale[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float most = rows.maximum[r];
#pragma unroll
    for (int n = 0; n < tile_keys / 8; n++) most = fmaxf(most, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 2));
    scale[r] = exp2_approx((rows.maximum[r] - most) * unit);
    rows.maximum[r] = most;
    // A row without a visible key so far: its masked scores become exp2(lowest) = 0 instead of exp2(0).
    float shift = most == lowest_score ? 0.0f : most * unit;
    float sum = rows.sum[r] * scale[r];
#pragma unroll
    for (int n = 0; n < tile_keys / 8; n++) {
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; i++) {
        scores[n][i] = exp2_approx(fmaf(scores[n][i], unit, -shift));
        sum += scores[n][i];
      }
    }
    rows.sum[r] = sum;
  }
  return make_float2(scale[0], scale[1]);
}

template <int D>
__device__ __forceinline__ void prefill_attention(bf16* out, const bf16* q, int qStride, const bf16* keys,
                                                  const bf16* values, const int2* tiles, const int* cuSeqlensQ,
                                                  const int* contextLens, const int* tables, int tableStride,
                                                  BlockSize size, int Hq, int Hkv, float scale, int window,
                                                  const float* slopes) {
  DYNAMIC_SHARED(shared);
  bf16* keyTile = (bf16*)shared;
  bf16* valueTile = keyTile + tile_keys * PrefillShared<D>::stride;
  bf16* queryTile = valueTile + tile_keys * PrefillShared<D>::stride;
  int* slots = (int*)(shared + PrefillShared<D>::bytes) - 2 * tile_keys;

  // Tiles in descending order: those of a sequence's end have the most keys, and start first. The heads of a tile are neighbours
  // in the grid, so that heads of one group find keys and values in the L2 cache.
  int2 tile = tiles[gridDim.y - 1 - blockIdx.y];
  int firstRow = cuSeqlensQ[tile.x], queryCount = cuSeqlensQ[tile.x + 1] - firstRow;
  int context = contextLens[tile.x], cached = context - queryCount;
  const int* table = tables + (size_t)tile.x * tableStride;
  int head = blockIdx.x, kvHead = head / (Hq / Hkv);
  q += (size_t)firstRow * qStride + head * D;
  keys += kvHead * D;
  values += kvHead * D;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int row = tile.y + warp * 16 + (lane >> 2);
  // Keys before `begin` are outside of every query's window; keys from `end` on are after every query.
  int begin = window ? max(0, cached + tile.y - window + 1) / tile_keys * tile_keys : 0;
  int end = min(context, cached + tile.y + tile_queries);

  // The last key stands for those after it: every query masks them.
  auto find_slots = [&](int first) {
    int key = min(first + (int)threadIdx.x, end - 1);
    if (threadIdx.x < tile_keys)
      slots[(first & tile_keys) + threadIdx.x] = (int)slot_of(table, key, size);
  };
  auto copy_keys = [&](bf16* to, const bf16* from, int first) {
    const int* mine = slots + (first & tile_keys);
    copy_tile<D>(to, from, (unsigned)(Hkv * D) * 2, [&](int i) { return mine[i]; });
  };

  Queries<D> queries;
  if constexpr (D > register_queries) {
    copy_tile<D>(queryTile, q, (unsigned)qStride * 2, [&](int i) { return min(tile.y + i, queryCount - 1); });
    queries.row = queryTile + (warp * 16 + (lane & 15)) * PrefillShared<D>::stride + (lane >> 4) * 8;
  } else {
    queries.load(q, qStride, row, queryCount);
  }

  float sums[D / 8][4];
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
  RowState rows = {{lowest_score, lowest_score}, {0.0f, 0.0f}};
  float slope = slopes ? slopes[head] * log2_e : 0.0f;
  float unit = slopes ? 1.0f : scale * log2_e;

  find_slots(begin);
  __syncthreads();
  copy_keys(keyTile, keys, begin);
  cp_async_commit();
  for (int first = begin; first < end; first += tile_keys) {
    find_slots(first + tile_keys);
    cp_async_wait<0>();
    __syncthreads();
    copy_keys(valueTile, values, first);
    cp_async_commit();
    float scores[tile_keys / 8][4];
    multiply_keys<D>(scores, queries, keyTile);
    __syncthreads();
    if (first + tile_keys < end) copy_keys(keyTile, keys, first + tile_keys);
    cp_async_commit();

    bool isMasked = first + tile_keys - 1 > cached + tile.y ||
                    (window && first <= cached + tile.y + tile_queries - 1 - window);
    if (slopes || isMasked) {
#pragma unroll
      for (int n = 0; n < tile_keys / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          int key = first + n * 8 + (lane & 3) * 2 + (i & 1), query = cached + row + (i >> 1) * 8;
          if (slopes) scores[n][i] = fmaf(scores[n][i], scale * log2_e, slope * (float)(key - query));
          if (key > query || (window && key <= query - window)) scores[n][i] = lowest_score;
        }
      }
    }
    float2 factor = softmax_tile(scores, rows, unit);
    // Maxima change seldom after the first tiles; a factor of 1 changes no bit.
    if (__any_sync(all_lanes, factor.x != 1.0f || factor.y != 1.0f)) {
#pragma unroll
      for (int n = 0; n < D / 8; n++) {
        sums[n][0] *= factor.x;
        sums[n][1] *= factor.x;
        sums[n][2] *= factor.y;
        sums[n][3] *= factor.y;
      }
    }
    // Waits for the values; the copy of the next keys continues.
    cp_async_wait<1>();
    __syncthreads();
    multiply_values<D>(sums, scores, valueTile);
  }

  // Read again: in registers during the loop, these numbers would cause spills.
  tile = tiles[gridDim.y - 1 - blockIdx.y];
  firstRow = cuSeqlensQ[tile.x];
  queryCount = cuSeqlensQ[tile.x + 1] - firstRow;
  row = tile.y + warp * 16 + (lane >> 2);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(all_lanes, sum, 1);
    sum += __shfl_xor_sync(all_lanes, sum, 2);
    int query = row + r * 8;
    if (query >= queryCount) continue;
    bf16* target = out + ((size_t)(firstRow + query) * Hq + head) * D + (lane & 3) * 2;
    float scaleOut = 1.0f / sum;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(unsigned*)(target + n * 8) = to_pair(sums[n][2 * r] * scaleOut, sums[n][2 * r + 1] * scaleOut);
  }
}

// Blocks of 128 threads per multiprocessor: two for D = 256, whose sums alone are 128 registers.
#define ATTENTION_PREFILL(D)                                                                                         \
  extern "C" __global__ void __launch_bounds__(128, D > 128 ? 2 : 3) attention_prefill_d##D(                         \
      bf16* out, const bf16* q, int qStride, const bf16* keys, const bf16* values, const int2* tiles,                \
      const int* cuSeqlensQ, const int* contextLens, const int* tables, int tableStride, BlockSize size, int Hq,     \
      int Hkv, float scale, int window, const float* slopes) {                                                       \
    prefill_attention<D>(out, q, qStride, keys, values, tiles, cuSeqlensQ, contextLens, tables, tableStride, size,   \
                         Hq, Hkv, scale, window, slopes);                                                            \
  }

HEAD_DIMENSIONS(ATTENTION_PREFILL)
#undef ATTENTION_PREFILL
