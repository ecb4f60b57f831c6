// Token and position embeddings.
#pragma once

/** x[T][H] = table[token] + positionTable[position]; without a position table, x = table[token]. Grid: T. */
extern "C" __global__ void embed(float* x, const int* tokens, const int* positions, const bf16* table,
                                 const bf16* positionTable, int H) {
  size_t row = blockIdx.x;
  const bf16* token = table + (size_t)tokens[row] * H;
  const bf16* position = positionTable ? positionTable + (size_t)positions[row] * H : nullptr;
  for (int i = threadIdx.x; i < H; i += blockDim.x)
    x[row * H + i] = to_float(token[i]) + (position ? to_float(position[i]) : 0.0f);
}
