// Runs the threads of one block as fibers on one processor, with barriers of the block and collectives of a warp.
//
// A fiber runs until it must wait: at __syncthreads for all threads of the block, at a warp collective for all lanes of its
// warp. Then the next runnable lane continues. Without a seed, warps run in ascending order, each as far as it can. With a
// seed, the order of warps, the direction of lanes and the points at which a warp is descheduled are pseudo-random: a result
// that depends on them has a race.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {

struct Uint3 {
  unsigned x, y, z;
};

constexpr int maxThreads = 1024;
constexpr int warpSize = 32;

/** Bytes of a lane's values in a collective: the fragments of a matrix product, or the addresses of a matrix load. */
constexpr int mailboxBytes = 64;

/** A 16-byte copy from global to shared memory that cp_async has started. */
struct PendingCopy {
  void* to;
  const void* from;
  int group;
};

struct Fiber {
  void* stackPointer;
  void* stack;
  Uint3 threadIndex;
  int lane;
  int warp;
  /** Collectives that this lane has passed: selects one of the warp's two mailboxes. */
  unsigned round;
  int copyGroup;
  std::vector<PendingCopy> copies;
};

/** The operations at which all lanes of a warp must arrive together. */
enum class Collective { none, sync, shuffle, vote, product, load };

struct Warp {
  unsigned live;
  unsigned ready;
  unsigned atBarrier;
  unsigned arrived;
  Collective kind;
  /** Two sets, because a lane may enter the next collective before the others have read their result of this one. */
  alignas(16) unsigned char mailbox[2][warpSize][mailboxBytes];
  alignas(16) unsigned char result[2][warpSize][mailboxBytes];
};

extern "C" void kvlab_switch_fiber(void** from, void* to);

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "CUDA emulation switches fibers on x86-64 and arm64 only"
#endif

class Block {
 public:
  Uint3 blockIndex, blockSize, gridSize;
  Fiber* current = nullptr;
  Warp* warp = nullptr;
  unsigned char* dynamicShared = nullptr;
  /** The reason for which the block was stopped; null if it ran to its end. */
  const char* fault = nullptr;

  /** Order of warps; 0: ascending. */
  uint32_t seed = 0;

  using Body = void (*)(void*);

  /** Runs one block. Returns false if its threads did not arrive together at a barrier or collective. */
  bool run(Body body, void* argument) {
    body_ = body;
    argument_ = argument;
    fault = nullptr;
    prepare();
    current = pick();
    enter(&schedulerPointer_, current);
    return fault == nullptr;
  }

  void setSize(Uint3 grid, Uint3 block) {
    gridSize = grid;
    blockSize = block;
    threads_ = static_cast<int>(block.x * block.y * block.z);
    warps_ = (threads_ + warpSize - 1) / warpSize;
    for (int i = 0; i < threads_; i++) {
      unsigned n = static_cast<unsigned>(i);
      fibers_[i].threadIndex = {n % block.x, n / block.x % block.y, n / (block.x * block.y)};
      fibers_[i].lane = i % warpSize;
      fibers_[i].warp = i / warpSize;
    }
  }

  void waitForBlock() {
    warp->atBarrier |= 1u << current->lane;
    atBarrier_++;
    leave();
  }

  /** Waits until all lanes of the warp have arrived; the last one runs `complete(mailboxes, results)` for all of them. */
  template <class Complete>
  unsigned char* meet(Collective kind, const void* value, size_t bytes, Complete complete) {
    Warp& mine = *warp;
    Fiber& self = *current;
    int parity = self.round++ & 1;
    if (mine.arrived == 0) mine.kind = kind;
    if (mine.kind != kind) stop("lanes of a warp arrived at different collectives");
    memcpy(mine.mailbox[parity][self.lane], value, bytes);
    mine.arrived |= 1u << self.lane;
    if (mine.arrived != mine.live) {
      leave();
    } else {
      complete(mine.mailbox[parity], mine.result[parity]);
      mine.ready |= mine.arrived;
      mine.arrived = 0;
      if (seed) {
        deschedule_ = random() & 1;
        leave();
      } else {
        mine.ready &= ~(1u << self.lane);
      }
    }
    return mine.result[parity][self.lane];
  }

  /** Stops the block; the launch fails. */
  [[gnu::noinline]] void stop(const char* reason) {
    fault = reason;
    void* unused;
    kvlab_switch_fiber(&unused, schedulerPointer_);
  }

  uint32_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_ >> 8;
  }

  void reseed(uint32_t value) {
    seed = value;
    state_ = value * 2654435761u + 1;
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t stackBytes = 256 << 10;
#else
  static constexpr size_t stackBytes = 64 << 10;
#endif

  Fiber fibers_[maxThreads];
  Warp warps_storage_[maxThreads / warpSize];
  int threads_ = 0;
  int warps_ = 0;
  int live_ = 0;
  int atBarrier_ = 0;
  bool deschedule_ = false;
  bool descending_ = false;
  uint32_t state_ = 1;
  void* schedulerPointer_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  char* stacks_ = nullptr;
  std::vector<void*> freeStacks_;

  void prepare() {
    if (!stacks_) {
      stacks_ = static_cast<char*>(mmap(nullptr, stackBytes * maxThreads, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    if (freeStacks_.size() != maxThreads) {
      freeStacks_.clear();
      for (int i = maxThreads; i > 0; i--) freeStacks_.push_back(stacks_ + stackBytes * i);
#if defined(__SANITIZE_ADDRESS__)
      __asan_unpoison_memory_region(stacks_, stackBytes * maxThreads);
#endif
    }
    for (int w = 0; w < warps_; w++) {
      int lanes = threads_ - w * warpSize;
      unsigned all = lanes >= warpSize ? ~0u : (1u << lanes) - 1;
      Warp& one = warps_storage_[w];
      one.live = one.ready = all;
      one.atBarrier = one.arrived = 0;
    }
    for (int i = 0; i < threads_; i++) {
      fibers_[i].stack = nullptr;
      fibers_[i].round = 0;
      fibers_[i].copyGroup = 0;
      fibers_[i].copies.clear();
    }
    live_ = threads_;
    atBarrier_ = 0;
    warp = &warps_storage_[0];
    deschedule_ = seed != 0;
    descending_ = false;
  }

  /** The next thread that can run; null if all have ended, or if none can run. */
  Fiber* pick() {
    if (deschedule_ || !warp->ready) {
      deschedule_ = false;
      if (!chooseWarp()) {
        if (live_ == 0) return nullptr;
        // Stricter than a device, which does not count threads that have ended.
        if (atBarrier_ != threads_) {
          fault = "threads wait at a barrier or collective at which others never arrive";
          return nullptr;
        }
        atBarrier_ = 0;
        for (int w = 0; w < warps_; w++) {
          warps_storage_[w].ready = warps_storage_[w].atBarrier;
          warps_storage_[w].atBarrier = 0;
        }
        chooseWarp();
      }
    }
    int lane = descending_ ? 31 - __builtin_clz(warp->ready) : __builtin_ctz(warp->ready);
    warp->ready &= ~(1u << lane);
    return &fibers_[(warp - warps_storage_) * warpSize + lane];
  }

  bool chooseWarp() {
    int first = seed ? static_cast<int>(random() % static_cast<unsigned>(warps_)) : 0;
    if (seed) descending_ = random() & 1;
    for (int i = 0; i < warps_; i++) {
      Warp* one = &warps_storage_[(first + i) % warps_];
      if (!one->ready) continue;
      warp = one;
      return true;
    }
    return false;
  }

  /** Suspends the current fiber and continues another one, or the caller of `run` if none can run. */
  void leave() {
    Fiber* self = current;
    Fiber* next = pick();
    if (next == self) return;
    if (!next) {
      kvlab_switch_fiber(&self->stackPointer, schedulerPointer_);
      return;
    }
    enter(&self->stackPointer, next);
  }

  void enter(void** from, Fiber* next) {
    current = next;
    if (!next->stack) start(next);
    kvlab_switch_fiber(from, next->stackPointer);
  }

  /** Prepares a stack on which the first switch enters `main`. */
  void start(Fiber* fiber) {
    fiber->stack = freeStacks_.back();
    freeStacks_.pop_back();
    void** top = static_cast<void**>(fiber->stack);
#if defined(__x86_64__)
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&Block::main);
    top -= 6;
    memset(top, 0, 6 * sizeof(void*));
#else
    top -= 20;
    memset(top, 0, 20 * sizeof(void*));
    top[11] = reinterpret_cast<void*>(&Block::main);
#endif
    fiber->stackPointer = top;
  }

  /** Runs threads one after another on one stack, as long as none of them waits. */
  static void main();
};

inline Block block;

inline void Block::main() {
  Block& self = block;
  for (;;) {
    self.body_(self.argument_);
    Fiber* done = self.current;
    self.warp->live &= ~(1u << done->lane);
    self.live_--;
    if (self.warp->arrived) self.stop("a lane ended while others of its warp wait at a collective");
    Fiber* next = self.pick();
    if (next && !next->stack) {
      next->stack = done->stack;
      self.current = next;
      continue;
    }
    self.freeStacks_.push_back(done->stack);
    void* unused;
    if (next) self.current = next;
    kvlab_switch_fiber(&unused, next ? next->stackPointer : self.schedulerPointer_);
  }
}

#if defined(__x86_64__)
asm(R"(.text
.globl kvlab_switch_fiber
.hidden kvlab_switch_fiber
.type kvlab_switch_fiber,@function
kvlab_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kvlab_switch_fiber,.-kvlab_switch_fiber
)");
#else
asm(R"(.text
.globl kvlab_switch_fiber
.hidden kvlab_switch_fiber
.type kvlab_switch_fiber,%function
kvlab_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#endif

}  // namespace emulator
