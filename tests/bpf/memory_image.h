// The walk over interpreted frames as plain C (bpf/python.h, bpf/php.h), on memory that a test
// makes.

#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "bpf/interpreter_abi.h"

namespace profd::test {

inline std::uint64_t clock_now = 0;

// Pages that are not there can't be read. A read takes as long as a warm one of BPF.
class MemoryImage {
 public:
  static constexpr std::uint64_t kPage = 4096;

  template <class T>
  void put(std::uint64_t address, T value) {
    put_bytes(address, std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  }
  void put_bytes(std::uint64_t address, const std::string& bytes) {
    for (const char byte : bytes) {
      pages_[address / kPage].at(address % kPage) = byte;
      ++address;
    }
  }
  void forget(std::uint64_t address) { pages_.erase(address / kPage); }

  bool read(void* to, std::uint32_t bytes, std::uint64_t address) {
    std::string got;
    for (std::uint32_t i = 0; i < bytes; ++i) {
      const auto page = pages_.find((address + i) / kPage);
      if (page == pages_.end()) break;
      got += page->second.at((address + i) % kPage);
    }
    clock_now += 100 + bytes / 64;
    std::memset(to, 0, bytes);
    if (got.size() < bytes) return false;
    std::memcpy(to, got.data(), bytes);
    return true;
  }

 private:
  std::map<std::uint64_t, std::array<char, kPage>> pages_;
};

// What the walk reads, and the code that was announced.
inline MemoryImage* image_now = nullptr;
inline std::set<std::uint64_t> announced_now;

}  // namespace profd::test

// What bpf/interpreter_state.h wants.
inline bool profd_read_user(void* to, __u32 bytes, __u64 address) {
  return profd::test::image_now->read(to, bytes, address);
}
inline __u64 profd_hash_word(__u64 hash, __u64 word) {
  return (hash ^ word) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
}
inline __u64 profd_hash_end(__u64 hash) { return (hash ^ hash >> 32) | 1; }
inline bool profd_was_announced(__u64 id) { return profd::test::announced_now.contains(id); }
inline __u64 profd_clock_ns() { return profd::test::clock_now; }

#include "bpf/php.h"
#include "bpf/python.h"
