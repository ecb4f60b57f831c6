// All kernels of the CUDA engine, as one translation unit. Weights, activations and the block pool are bf16; the residual stream
// and the logits are float32; sums are float32. Parameters, grids and shared memory of each kernel: engine/cuda/launches.ts.
//
// A row's result depends on the row's inputs alone, bit for bit: not on the batch, the grid or the numbers of blocks. The
// exception is the split count of attention_decode, which selects the order of its sums.
#include "platform.cuh"

#include "embedding.cuh"
#include "norms.cuh"
#include "rope.cuh"
#include "attention-prefill.cuh"
#include "attention-decode.cuh"
#include "activations.cuh"
#include "blocks.cuh"
#include "random.cuh"
#include "sampling.cuh"
#include "gemm.cuh"
#include "bandwidth.cuh"
