// Device memory and pinned memory. Both are filled with 0xFF, which is NaN as a float, so that reads of unwritten memory show.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

namespace emulator {

/** Allocations by address. */
class Memory {
 public:
  explicit Memory(size_t limit) : limit_(limit) {}

  void* allocate(size_t bytes) {
    if (bytes == 0 || used_ + bytes > limit_) return nullptr;
    void* address = nullptr;
    if (posix_memalign(&address, 256, bytes)) return nullptr;
    memset(address, 0xFF, bytes);
    used_ += bytes;
    allocations_[reinterpret_cast<uintptr_t>(address)] = bytes;
    return address;
  }

  bool release(void* address) {
    auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
    if (found == allocations_.end()) return false;
    used_ -= found->second;
    allocations_.erase(found);
    free(address);
    return true;
  }

  /** Whether the whole range is inside one allocation. */
  bool contains(const void* address, size_t bytes) const {
    auto at = reinterpret_cast<uintptr_t>(address);
    auto after = allocations_.upper_bound(at);
    if (after == allocations_.begin()) return false;
    auto found = std::prev(after);
    return at + bytes <= found->first + found->second;
  }

  size_t used() const { return used_; }
  size_t limit() const { return limit_; }

 private:
  size_t limit_;
  size_t used_ = 0;
  std::map<uintptr_t, size_t> allocations_;
};

}  // namespace emulator
