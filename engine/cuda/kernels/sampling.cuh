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

/** The largest of the logits; infinite if one is NaN. */
__device__ __forceinline__ Candidate most_likely(const float* logits, int V, Candidate* shared) {
  Candidate best = {-infinity(), 0x7fffffff};
  for (int token = threadIdx.x; token < V; token += blockDim.x) {
    float value = logits[token];
    // A NaN counts as infinite, so that it is found.
    best = better(best, {value == value ? value : infinity(), token});
  }
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

/** A number of tokens, and the sum of their weights in units of 2^-32: integers, so that any order of addition is the same. */
struct Mass {
  unsigned long long weight;
  unsigned count;
};

/** Bits whose unsigned order is the order of floats. */
__device__ __forceinline__ unsigned ordered_bits(float value) {
  unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
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

struct Histogram {
  unsigned long long weights[256];
  unsigned counts[256];
  Cut cut;
  unsigned digit;
};

/** Tokens of the list before the cut: the least number whose count or weight reaches a limit. */
struct Limit {
  unsigned count;
  unsigned long long weight;
};

/**
 * Finds the cut of the tokens in descending order of their keys: the shortest list with limit.count tokens or with a weight of
 * limit.weight. Radix selection: four passes, one for each byte of the keys. `keyOf(token)` returns a key and its weight.
 */
template <class KeyOf>
__device__ __forceinline__ Cut select(int V, Limit limit, Histogram& histogram, KeyOf keyOf) {
  unsigned prefix = 0;
  Mass above = {0, 0};
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      histogram.weights[i] = 0;
      histogram.counts[i] = 0;
    }
    __syncthreads();
    for (int token = threadIdx.x; token < V; token += blockDim.x) {
      unsigned long long weight;
      unsigned key = keyOf(token, weight);
      if (shift < 24 && (key ^ prefix) >> (shift + 8)) continue;
      unsigned digit = key >> shift & 255u;
      atomicAdd(&histogram.counts[digit], 1u);
      atomicAdd(&histogram.weights[digit], weight);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      Mass sum = above;
      // Passes over digits whose tokens are all before the cut; the last digit that has tokens ends the search.
      int last = 255;
      for (int i = 255; i >= 0; i--)
        if (histogram.counts[i]) last = i;
      for (; digit > last; digit--) {
        Mass next = {sum.weight + histogram.weights[digit], sum.count + histogram.counts[digit]};
        if (next.count >= limit.count || next.weight >= limit.weight) break;
        sum = next;
      }
      histogram.digit = (unsigned)digit;
      histogram.cut.weight = sum.weight;
      histogram.cut.ofKey = sum.count;
      histogram.cut.withKey = histogram.counts[digit];
      histogram.cut.key = prefix | (unsigned)digit << shift;
    }
    __syncthreads();
    prefix = histogram.cut.key;
    above = {histogram.cut.weight, histogram.cut.ofKey};
  }
  if (threadIdx.x == 0) {
    Cut& cut = histogram.cut;
    unsigned long long each = cut.withKey ? histogram.weights[histogram.digit] / cut.withKey : 0;
    cut.ofKey = 0;
    while (cut.ofKey < cut.withKey && above.count + cut.ofKey < limit.count && cut.weight < limit.weight) {
      cut.ofKey++;
      cut.weight += each;
    }
  }
  __syncthreads();
  Cut cut = histogram.cut;
  __syncthreads();
  return cut;
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
  __shared__ Histogram histogram;
  SamplingRow row = rows[blockIdx.x];
  logits += (size_t)blockIdx.x * V;
  Candidate best = most_likely(logits, V, shared);
  if (!is_finite(best.value) || row.temperature == 0.0f) {
    if (threadIdx.x == 0) out[blockIdx.x] = is_finite(best.value) ? best.token : -1;
    return;
  }
  float inverse = 1.0f / row.temperature;
  auto weight_of = [&](int token) { return expf((logits[token] - best.value) * inverse); };
  auto key_of = [&](int token, unsigned long long& weight) {
    weight = (unsigned long long)(weight_of(token) * 4294967296.0f);
    return ordered_bits(logits[token]);
  };

  Cut cut = {0, (unsigned)V, (unsigned)V, 0};
  bool isCut = row.topK > 0 || row.topP < 1.0f;
  if (isCut) {
    unsigned count = row.topK > 0 ? (unsigned)min(row.topK, V) : (unsigned)V;
    Limit limit = {count, ~0ull};
    cut = select(V, limit, histogram, key_of);
    if (row.topP < 1.0f) {
      limit.weight = (unsigned long long)((double)cut.weight * (double)row.topP);
      if (limit.weight == 0) limit.weight = 1;
      cut = select(V, limit, histogram, key_of);
    }
  }
  // Of equal logits, those of the lowest token ids are kept: another selection, with the token as the key.
  unsigned lastToken = 0xffffffffu;
  if (isCut && cut.ofKey < cut.withKey) {
    Limit limit = {cut.ofKey, ~0ull};
    lastToken = ~select(V, limit, histogram, [&](int token, unsigned long long& weight) {
                   weight = 0;
                   return ordered_bits(logits[token]) == cut.key ? ~(unsigned)token : 0u;
                 }).key;
  }

  Candidate sampled = {-infinity(), 0x7fffffff};
  for (int token = threadIdx.x; token < V; token += blockDim.x) {
    if (isCut) {
      unsigned key = ordered_bits(logits[token]);
      if (key < cut.key || (key == cut.key && (unsigned)token > lastToken)) continue;
    }
    float weight = weight_of(token);
    if (weight < row.minP || weight == 0.0f) continue;
    float exponential = -log1pf(-uniform(row, token));
    sampled = better(sampled, {(logits[token] - best.value) * inverse - logf(exponential), token});
  }
  sampled = block_best(sampled, shared);
  if (threadIdx.x == 0) out[blockIdx.x] = sampled.token == 0x7fffffff ? best.token : sampled.token;
}
