// Activations of the feed-forward layers, eight elements a thread. Grid: (T, F / 1,024 rounded up), 128 threads.
#pragma once

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ __forceinline__ float gelu_of(float x, int tanhApproximation) {
  if (tanhApproximation) return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
}

/** out[T][F] = silu(gate) · up, of gateUp[T][gate F, up F]. */
extern "C" __global__ void __launch_bounds__(128) silu_gate(bf16* out, const bf16* gateUp, int F) {
  size_t row = blockIdx.x;
  int first = ((int)blockIdx.y * 128 + (int)threadIdx.x) * 8;
  const bf16* gates = gateUp + row * 2 * F + first;
  const bf16* ups = gates + F;
  out += row * F + first;
  if (first + 8 <= F && F % 8 == 0) {
    Eight gate = load_eight(gates), up = load_eight(ups);
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      pairs[i] = to_pair(silu(gate[2 * i]) * up[2 * i], silu(gate[2 * i + 1]) * up[2 * i + 1]);
    *(uint4*)out = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
  for (int i = 0; i < 8 && first + i < F; i++) out[i] = to_bf16(silu(to_float(gates[i])) * to_float(ups[i]));
}

/** x[T][F] = gelu(x + bias), by its tanh approximation or exactly. */
extern "C" __global__ void __launch_bounds__(128) gelu(bf16* x, const bf16* bias, int F, int tanhApproximation) {
  int first = ((int)blockIdx.y * 128 + (int)threadIdx.x) * 8;
  x += (size_t)blockIdx.x * F + first;
  if (bias) bias += first;
  if (first + 8 <= F && F % 8 == 0) {
    Eight value = load_eight(x), added = bias ? load_eight(bias) : Eight{make_uint4(0, 0, 0, 0)};
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      pairs[i] = to_pair(gelu_of(value[2 * i] + added[2 * i], tanhApproximation),
                         gelu_of(value[2 * i + 1] + added[2 * i + 1], tanhApproximation));
    *(uint4*)x = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
  for (int i = 0; i < 8 && first + i < F; i++)
    x[i] = to_bf16(gelu_of(to_float(x[i]) + (bias ? to_float(bias[i]) : 0.0f), tanhApproximation));
}
