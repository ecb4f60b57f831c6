// Kernels by name, as cuModuleGetFunction finds them. build.ts generates the list from the preprocessed sources.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fibers.h"

namespace emulator {

struct Kernel {
  const char* name;
  /** Threads of a block at most, from __launch_bounds__. */
  unsigned maxThreads;
  std::vector<size_t> parameterBytes;
  /** Copies the parameters of a launch; the result runs one thread. */
  std::function<std::function<void()>(void** parameters)> bind;
  /** Dynamic shared memory that a launch may use; above 48 KiB only after cuFuncSetAttribute. */
  int maxSharedBytes = 48 << 10;
};

template <class... A, size_t... I>
std::tuple<A...> read(void** parameters, std::index_sequence<I...>) {
  return {*static_cast<A*>(parameters[I])...};
}

template <class... A>
Kernel kernelOf(const char* name, unsigned maxThreads, void (*function)(A...)) {
  return {name, maxThreads, {sizeof(A)...}, [function](void** parameters) {
            auto values = read<std::remove_cv_t<A>...>(parameters, std::index_sequence_for<A...>{});
            return std::function<void()>([function, values] { std::apply(function, values); });
          }};
}

struct Launch {
  Uint3 grid, block;
  size_t sharedBytes;
  std::function<void()> thread;
  const char* name;
};

/** A permutation of [0, count) that depends on the seed. */
inline uint64_t permuted(uint64_t i, uint64_t count, uint32_t seed) {
  if (!seed) return i;
  uint64_t rotated = (i + seed) % count;
  return seed & 1 ? count - 1 - rotated : rotated;
}

/** Runs all blocks of a launch. Blocks run one after another, in an order that depends on the seed. */
inline bool runBlocks(const Launch& launch) {
  const Uint3& grid = launch.grid;
  block.setSize(grid, launch.block);
  // Allocated with its exact size, so that AddressSanitizer finds accesses past its end.
  void* shared = nullptr;
  if (launch.sharedBytes && posix_memalign(&shared, 128, launch.sharedBytes)) return false;
  block.dynamicShared = static_cast<unsigned char*>(shared);
  uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  bool isRun = true;
  for (uint64_t i = 0; i < count && isRun; i++) {
    uint64_t n = permuted(i, count, block.seed);
    block.blockIndex = {static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
                        static_cast<unsigned>(n / (uint64_t{grid.x} * grid.y))};
    if (shared) memset(shared, 0xFF, launch.sharedBytes);
    isRun = block.run([](void* one) { static_cast<const Launch*>(one)->thread(); }, const_cast<Launch*>(&launch));
  }
  if (!isRun) fprintf(stderr, "CUDA emulation: %s: %s\n", launch.name, block.fault);
  free(shared);
  return isRun;
}

}  // namespace emulator
