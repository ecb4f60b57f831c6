// Next tokens from logits [rows][V]: the most likely token, or a sample. One block a row.
#pragma once

/** A logit with its token; orders by logit, then by the lower token. */
struct Candidate {
  float value;
  int token;
};

__device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

/** The best candidate of a block; every thread gets it. */
__device__ __forceinline__ Candidate block_best(Candidate mine, Candidate* shared) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) {
    Candidate other = {__shfl_xor_sync(all_lanes, mine.value, mask), __shfl_xor_sync(all_lanes, mine.token, mask)};
    mine = better(mine, other);
  }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = mine;
  __syncthreads();
  mine = shared[0];
  for (int i = 1; i < (int)(blockDim.x / 32); i++) mine = better(mine, shared[i]);
  return mine;
}

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

/**
 * Calls each(token, logit) for the tokens of this thread, in ascending order. Four loads of 16 bytes are in flight; rows are aligned
 * for these if V is a multiple of 4, and are otherwise read 4 bytes at a time.
 */
template <class Each>
__device__ __forceinline__ void for_each_logit(const float* __restrict__ logits, int V, Each each) {
  constexpr int ahead = 4;
  int stride = (int)blockDim.x * 4;
  for (int first = (int)threadIdx.x * 4; first < V; first += ahead * stride) {
    float loaded[ahead][4];
#pragma unroll
    for (int n = 0; n < ahead; n++) {
      int token = first + n * stride;
      if (V % 4 == 0) {
        float4 four = token < V ? *(const float4*)(logits + token) : make_float4(0, 0, 0, 0);
        loaded[n][0] = four.x, loaded[n][1] = four.y, loaded[n][2] = four.z, loaded[n][3] = four.w;
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) loaded[n][i] = token + i < V ? logits[token + i] : 0.0f;
      }
    }
#pragma unroll
    for (int n = 0; n < ahead; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (first + n * stride + i < V) each(first + n * stride + i, loaded[n][i]);
  }
}

/** The largest of the logits; infinite if one is NaN. */
__device__ __forceinline__ Candidate most_likely(const float* logits, int V, Candidate* shared) {
  Candidate best = {-infinity(), 0x7fffffff};
  for_each_logit(logits, V, [&](int token, float value) {
    // A NaN counts as infinite, so that it is found.
    best = better(best, {value == value ? value : infinity(), token});
  });
  return block_best(best, shared);
}

__device__ __forceinline__ bool is_finite(float value) { return value > -infinity() && value < infinity(); }

/** out[row] = token of the largest logit, the lowest of equal ones; −1 if that logit is not finite. */
extern "C" __global__ void __launch_bounds__(1024) argmax_rows(int* out, const float* logits, int V) {
  __shared__ Candidate shared[32];
  Candidate best = most_likely(logits + (size_t)blockIdx.x * V, V, shared);
  if (threadIdx.x == 0) out[blockIdx.x] = is_finite(best.value) ? best.token : -1;
}

/** Parameters of one row; DeviceSampling in engine/executor.ts. The seed is 64 bits in two's complement. */
struct SamplingRow {
  float temperature;
  float topP;
  float minP;
  int topK;
  unsigned seedLow;
  unsigned seedHigh;
  unsigned position;
  unsigned padding;
};

/** Bits whose unsigned order is the order of floats. */
__device__ __forceinline__ unsigned ordered_bits(float value) {
  unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/** A number of tokens, and the sum of their weights in units of 2^-31: integers, so that any order of addition is the same. */
struct Mass {
  unsigned long long weight;
  unsigned count;
};

__device__ __forceinline__ Mass operator+(Mass a, Mass b) { return {a.weight + b.weight, a.count + b.count}; }

/** A list of tokens ends as soon as it has this many tokens or this much weight. */
__device__ __forceinline__ bool reaches(Mass mass, Mass limit) {
  return mass.count >= limit.count || mass.weight >= limit.weight;
}

/** Where a descending list of tokens is cut: all tokens above `key`, and the first `ofKey` tokens of that key. */
struct Cut {
  unsigned key;
  unsigned ofKey;
  /** Tokens with that key. */
  unsigned withKey;
  /** Weight of the tokens before the cut. */
  unsigned long long weight;
};

/**
 * Tokens and weights by a digit of their keys. Shared memory of sm_90 adds 32-bit integers natively, and 64-bit ones by
 * compare-and-swap, so that a weight is two halves of 16 bits, whose sums fit in 32 bits for V up to 2^19. Each of eight copies is of
 * every eighth lane: lanes of a warp that add to one address are serialised.
 */
struct Histogram {
  static constexpr int copies = 8;
  unsigned counts[256][copies];
  unsigned low[256][copies];
  unsigned high[256][copies];
  Mass digits[256];
  /** Result of a pass: the digit at which the list ends, its tokens, and those above. */
  unsigned digit;
  Mass above;
  Mass ofDigit;
};

__device__ __forceinline__ void clear(Histogram& histogram) {
  unsigned* words = &histogram.counts[0][0];
  for (int i = threadIdx.x; i < 3 * 256 * Histogram::copies; i += blockDim.x) words[i] = 0;
}

__device__ __forceinline__ void add(Histogram& histogram, unsigned digit, unsigned weight) {
  int copy = threadIdx.x % Histogram::copies;
  atomicAdd(&histogram.counts[digit][copy], 1u);
  if (weight & 0xffffu) atomicAdd(&histogram.low[digit][copy], weight & 0xffffu);
  if (weight >> 16) atomicAdd(&histogram.high[digit][copy], weight >> 16);
}

__device__ __forceinline__ void sum_copies(Histogram& histogram) {
  for (int digit = threadIdx.x; digit < 256; digit += blockDim.x) {
    Mass sum = {0, 0};
#pragma unroll
    for (int copy = 0; copy < Histogram::copies; copy++)
      sum = sum + Mass{histogram.low[digit][copy] + ((unsigned long long)histogram.high[digit][copy] << 16),
                       histogram.counts[digit][copy]};
    histogram.digits[digit] = sum;
  }
}

/**
 * Finds the digit at which the list ends, from the highest one: the first at which the mass of all digits so far, and `above`,
 * reaches the limit, or else the last one that has tokens. One warp; a lane has eight digits.
 */
__device__ __forceinline__ void find_digit(Histogram& histogram, Mass above, Mass limit) {
  int lane = threadIdx.x, highest = 255 - 8 * lane;
  Mass mine = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; i++) mine = mine + histogram.digits[highest - i];
  Mass sum = mine;
#pragma unroll
  for (int delta = 1; delta < 32; delta <<= 1) {
    Mass before = {__shfl_up_sync(all_lanes, sum.weight, delta), __shfl_up_sync(all_lanes, sum.count, delta)};
    if (lane >= delta) sum = sum + before;
  }
  unsigned reaching = __ballot_sync(all_lanes, reaches(above + sum, limit));
  unsigned occupied = __ballot_sync(all_lanes, mine.count > 0);
  if (lane != (reaching ? __ffs(reaching) - 1 : 31 - __clz(occupied))) return;
  Mass before = {above.weight + sum.weight - mine.weight, above.count + sum.count - mine.count};
  unsigned left = mine.count;
  for (int digit = highest;; digit--) {
    Mass one = histogram.digits[digit];
    left -= one.count;
    if (left == 0 || reaches(before + one, limit)) {
      histogram.digit = (unsigned)digit;
      histogram.above = before;
      histogram.ofDigit = one;
      return;
    }
    before = before + one;
  }
}

/**
 * Finds the cut of the tokens in descending order of their keys: the shortest list with limit.count tokens or with a weight of
 * limit.weight, of which one is not 0. Radix selection: four passes, one for each byte of the keys. keyOf(token, logit, weight)
 * returns a key and sets its weight; equal keys have equal weights.
 */
template <class KeyOf>
__device__ __forceinline__ Cut select(const float* logits, int V, Mass limit, Histogram& histogram, KeyOf keyOf) {
  unsigned prefix = 0;
  Mass above = {0, 0}, ofDigit = {0, 0};
  for (int shift = 24; shift >= 0; shift -= 8) {
    clear(histogram);
    __syncthreads();
    for_each_logit(logits, V, [&](int token, float logit) {
      unsigned weight;
      unsigned key = keyOf(token, logit, weight);
      if (shift == 24 || (key ^ prefix) >> (shift + 8) == 0) add(histogram, key >> shift & 255u, weight);
    });
    __syncthreads();
    sum_copies(histogram);
    __syncthreads();
    if (threadIdx.x < 32) find_digit(histogram, above, limit);
    __syncthreads();
    // Written again only after the next barriers.
    prefix |= histogram.digit << shift;
    above = histogram.above;
    ofDigit = histogram.ofDigit;
  }
  unsigned long long each = ofDigit.weight > 0 ? ofDigit.weight / ofDigit.count : 0;
  unsigned long long ofKey = limit.count - above.count;
  if (each > 0) ofKey = min(ofKey, (limit.weight - above.weight - 1) / each + 1);
  ofKey = min(ofKey, (unsigned long long)ofDigit.count);
  return {prefix, (unsigned)ofKey, ofDigit.count, above.weight + ofKey * each};
}

/** A number in (0, 1) from the seed, the position and the token. */
__device__ __forceinline__ float uniform(const SamplingRow& row, int token) {
  unsigned bits = mixed(row.seedLow ^ mixed(row.seedHigh ^ mixed(row.position + 0x9e3779b9u)));
  bits = mixed(bits ^ mixed((unsigned)token + 0x85ebca6bu));
  return ((float)bits + 0.5f) * 2.3283064365386963e-10f;
}

/**
 * out[row] = a token sampled from softmax(logits / temperature), filtered as in engine/sampling.ts: the topK most likely tokens;
 * of these the fewest with a probability of topP together; of these, tokens with at least minP times the largest probability.
 * The sample is the token with the largest logit / temperature + Gumbel noise, which is a function of seed, position and token.
 * −1 if the largest logit is not finite; temperature 0: the most likely token.
 */
extern "C" __global__ void __launch_bounds__(1024)
    sample_rows(int* out, const float* logits, const SamplingRow* rows, int V) {
  __shared__ Candidate shared[32];
  __shared__ unsigned long long sums[32];
  __shared__ Histogram histogram;
  SamplingRow row = rows[blockIdx.x];
  logits += (size_t)blockIdx.x * V;
  Candidate best = most_likely(logits, V, shared);
  if (!is_finite(best.value) || row.temperature == 0.0f) {
    if (threadIdx.x == 0) out[blockIdx.x] = is_finite(best.value) ? best.token : -1;
    return;
  }
  float inverse = 1.0f / row.temperature;
  auto weight_of = [&](float logit) { return expf((logit - best.value) * inverse); };
  auto units_of = [&](float logit) { return (unsigned)(weight_of(logit) * 2147483648.0f); };
  constexpr unsigned long long any_weight = ~0ull;
  unsigned topK = row.topK > 0 ? (unsigned)min(row.topK, V) : (unsigned)V;
  bool isTopK = topK < (unsigned)V, isTopP = row.topP < 1.0f;

  Cut cut = {0, 0, 0, 0};
  if (isTopK) {
    Mass limit = {any_weight, topK};
    cut = select(logits, V, limit, histogram, [&](int, float logit, unsigned& weight) {
      weight = isTopP ? units_of(logit) : 0;
      return ordered_bits(logit);
    });
  } else if (isTopP) {
    for_each_logit(logits, V, [&](int, float logit) { cut.weight += units_of(logit); });
    cut.weight = block_sum(cut.weight, sums);
  }
  if (isTopP) {
    Mass limit = {(unsigned long long)((double)cut.weight * (double)row.topP), topK};
    if (limit.weight == 0) limit.weight = 1;
    cut = select(logits, V, limit, histogram, [&](int, float logit, unsigned& weight) {
      weight = units_of(logit);
      return ordered_bits(logit);
    });
  }
  // Of equal logits, those of the lowest token ids are kept: another selection, with the token as the key.
  unsigned lastToken = 0xffffffffu;
  if (cut.ofKey < cut.withKey) {
    Mass limit = {any_weight, cut.ofKey};
    lastToken = ~select(logits, V, limit, histogram, [&](int token, float logit, unsigned& weight) {
                   weight = 0;
                   return ordered_bits(logit) == cut.key ? ~(unsigned)token : 0u;
                 }).key;
  }

  Candidate sampled = {-infinity(), 0x7fffffff};
  for_each_logit(logits, V, [&](int token, float logit) {
    unsigned key = ordered_bits(logit);
    if (key < cut.key || (key == cut.key && (unsigned)token > lastToken)) return;
    float weight = weight_of(logit);
    if (weight < row.minP || weight == 0.0f) return;
    float exponential = -log1pf(-uniform(row, token));
    sampled = better(sampled, {(logit - best.value) * inverse - logf(exponential), token});
  });
  sampled = block_best(sampled, shared);
  if (threadIdx.x == 0) out[blockIdx.x] = sampled.token == 0x7fffffff ? best.token : sampled.token;
}
