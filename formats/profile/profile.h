// The profile of one process in memory, with what a gperftools CPU profile can express.
//
// A source (sampling, XRay) fills it, gperftools_writer.h encodes it, and gperftools_reader.h
// decodes it to an equal Profile. Addresses have the form that the format needs: add_stack()
// applies the rules of gperftools_format.h.
//
// Owns all its memory; no thread affinity. The only invariant: every record lies inside `pcs`.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace profd {

// The kind of a frame's address. Readers subtract 1 from every address except that of the leaf, so
// an exact one is written 1 higher.
enum class PcKind : std::uint8_t {
  kReturnAddress,  // the instruction after a call
  kExact,          // the instruction that a tick, a fault or a signal interrupted
};

struct Frame {
  std::uint64_t pc = 0;
  PcKind kind = PcKind::kReturnAddress;

  friend bool operator==(const Frame&, const Frame&) = default;
};

// One executable mapping: [start, end) has the bytes of `path` from `file_offset` on.
struct ProfileMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::string path;  // readers replace "$build" by Profile::build_dir

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

  // The period in the header: microseconds for an event that is time, else the unit of the event,
  // which session.json names.
  std::uint64_t period = 0;

  // What "$build" stands for in mapping paths; empty when no path uses it.
  std::string build_dir;

  // In file order, the main executable first: Go's pprof takes the first mapping that is not named
  // like a library for it.
  std::vector<ProfileMapping> mappings;

  // Adds `count` samples of a stack, leaf first, by the rules of the format: exact callers get + 1,
  // kernel addresses are folded, 0 becomes 1, the first caller differs from the leaf, and frames
  // beyond the 65536th are left out. A stack without frames becomes one frame at address 1. A count
  // of 0 adds nothing.
  void add_stack(std::span<const Frame> frames, std::uint64_t count);

  // Adds a record unchanged, as it is in a file, leaf first. For readers.
  void add_record(std::span<const std::uint64_t> pcs, std::uint64_t count);

  [[nodiscard]] std::span<const Record> records() const { return records_; }
  [[nodiscard]] std::span<const std::uint64_t> pcs(const Record& record) const;
  [[nodiscard]] std::uint64_t samples() const;  // the sum of the counts

  friend bool operator==(const Profile&, const Profile&) = default;

 private:
  std::vector<Record> records_;
  std::vector<std::uint64_t> pcs_;
};

// Perl's pprof drops every address above 2^63 - 1, and llvm-symbolizer sign-extends bit 55. So a
// kernel address is written as its low 48 bits with bit 52 set, which is above any user address and
// can be inverted. Other addresses stay unchanged.
[[nodiscard]] std::uint64_t fold_kernel_address(std::uint64_t address);
[[nodiscard]] std::uint64_t unfold_kernel_address(std::uint64_t folded);

}  // namespace profd
