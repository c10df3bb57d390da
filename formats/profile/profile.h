// The profile of one process: what a gperftools CPU profile can say, in memory.
//
// A Profile is filled by a source (sampling, JIT, XRay), encoded by gperftools_writer.h and decoded
// by gperftools_reader.h; one that went through both is equal. Addresses are kept as the format
// wants them, so the rules that pprof needs are applied once, here, when a stack is added
// (reference: gperftools_format.h).
//
// Owns all its memory; no thread affinity. Passive data with one invariant: every record lies
// inside `pcs`.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace profd {

// How a frame's address was come by. Readers take 1 from every address but the leaf's, so an exact
// one needs 1 more.
enum class PcKind : std::uint8_t {
  kReturnAddress,  // the instruction after a call
  kExact,          // the instruction that was running: interrupted by a tick, a fault or a signal
};

struct Frame {
  std::uint64_t pc = 0;
  PcKind kind = PcKind::kReturnAddress;

  friend bool operator==(const Frame&, const Frame&) = default;
};

// One executable mapping: [start, end) shows `path` from `file_offset` (bytes) on.
struct ProfileMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::string path;  // "$build/..." is resolved against Profile::build_dir by readers

  friend bool operator==(const ProfileMapping&, const ProfileMapping&) = default;
};

class Profile {
 public:
  struct Record {
    std::uint64_t count = 0;
    std::size_t first = 0;  // into pcs()
    std::size_t depth = 0;

    friend bool operator==(const Record&, const Record&) = default;
  };

  // The header's period: microseconds for an event that is time, else the event's own unit
  // (session.json names it).
  std::uint64_t period = 0;

  // What "$build" stands for in mapping paths; empty when no path uses it.
  std::string build_dir;

  // In file order: the main executable first (Go's pprof takes the first that is no library as
  // main).
  std::vector<ProfileMapping> mappings;

  // Adds `count` samples of a stack, leaf first. Applies the readers' rules: +1 on exact callers,
  // kernel addresses folded, 0 written as 1, a first caller never equal to the leaf, frames beyond
  // the 65536th left out. A stack without frames becomes one frame at address 1, a count of 0
  // nothing.
  void add_stack(std::span<const Frame> frames, std::uint64_t count);

  // Adds a record as it stands in a file, leaf first. For readers.
  void add_record(std::span<const std::uint64_t> pcs, std::uint64_t count);

  [[nodiscard]] std::span<const Record> records() const { return records_; }
  [[nodiscard]] std::span<const std::uint64_t> pcs(const Record& record) const;
  [[nodiscard]] std::uint64_t samples() const;  // sum of the counts

  friend bool operator==(const Profile&, const Profile&) = default;

 private:
  std::vector<Record> records_;
  std::vector<std::uint64_t> pcs_;
};

// Perl's pprof drops every address above 2^63-1, and llvm-symbolizer sign-extends bit 55, so kernel
// addresses are written as their low 48 bits with bit 52 set: above any user address, and
// invertible. Others pass unchanged.
[[nodiscard]] std::uint64_t fold_kernel_address(std::uint64_t address);
[[nodiscard]] std::uint64_t unfold_kernel_address(std::uint64_t folded);

}  // namespace profd
