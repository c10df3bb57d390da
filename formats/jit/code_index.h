// Which JIT code lay where, and when: the functions of one code map, by address and time.
//
// A generation is the code of one function at one place from its birth on. At an address, it lives
// until newer code lies on that address: a newer generation that overlaps it in part trims it, one
// that covers it ends it. None of this is stored: the answer for an address and a time is the
// youngest generation that covers the address and was born by then. So records may be added in any
// order, and a late record names earlier samples too. Code that ends without newer code (munmap,
// exec, the old place of a MOVE) is followed by a generation without a name.
//
// For a time at which nothing lived at the address, the answer is the oldest later function:
// runtimes that start to write a JIT source during their life stamp all their code with that time.
//
// Where there are too many generations, old ones are forgotten, a little with each one that is
// added. Afterwards an address has no name for the times that this may affect, and never a wrong
// one.
//
// The address space is divided into buckets, on 29 levels: a bucket of level n has 256 * 4^n bytes.
// A generation is listed on the lowest level whose buckets have at least twice its size, so in one
// bucket or two. A search visits one bucket of each level in use, from the time in question
// backwards; there are few other functions in a bucket, so this takes few steps. All steps are
// bounded, since other users' files fill the buckets: a process that fills them further loses
// names. A generation takes about 100 bytes, and its name.
//
// Times are nanoseconds of the samples' clock; addresses are the process's. Not thread-safe.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/base/seeded_hash.h"
#include "formats/jit/code.h"

namespace profd {

// What an index has lost, in generations.
struct JitCodeLosses {
  // Dropped to make room: first what ended long ago, then the oldest code that was no answer
  // lately. Also late records beside which thousands of generations are younger.
  std::uint64_t forgotten = 0;
  std::uint64_t unknown_moves = 0;  // of code that is not there, or is not found in time
};

struct JitCodeLimits {
  std::size_t generations = std::size_t{1} << 18;
  std::size_t name_bytes = std::size_t{32} << 20;
};

// JIT code, or the absence of code, in one cache line.
struct JitGeneration {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // not 0; 2^64 - 1: the whole address space
  std::uint64_t born_ns = 0;
  std::uint64_t serial = 0;
  std::uint64_t code_offset = 0;  // of the code bytes in the file, if it has them
  // How far before code_offset the records of lines and unwind data start; 0: there is none.
  std::uint32_t debug_info_back = 0;
  std::uint32_t debug_info_bytes = 0;
  std::uint32_t unwinding_back = 0;
  std::uint32_t unwinding_bytes = 0;
  std::uint32_t name_offset = 0;
  std::uint16_t source = 0;
  std::uint16_t name_bytes : 13 = 0;
  std::uint16_t is_function : 1 = 1;  // 0: there is no code here any more
  std::uint16_t has_code : 1 = 0;
  mutable std::uint16_t was_used : 1 = 0;  // for an answer, since the index last forgot some

  // The last byte, within the address space.
  [[nodiscard]] std::uint64_t last() const {
    return address + (bytes - 1 < ~address ? bytes - 1 : ~address);
  }
  [[nodiscard]] bool covers(std::uint64_t at) const { return at - address < bytes; }
  [[nodiscard]] bool overlaps(const JitGeneration& other) const {
    return other.covers(address) || covers(other.address);
  }
  [[nodiscard]] bool is_older_than(const JitGeneration& other) const {
    return born_ns != other.born_ns ? born_ns < other.born_ns : serial < other.serial;
  }
};
static_assert(sizeof(JitGeneration) == 64);

class JitForgetting;

class JitCodeIndex {
 public:
  explicit JitCodeIndex(const JitCodeLimits& limits = {});
  JitCodeIndex(JitCodeIndex&& other) noexcept;
  JitCodeIndex& operator=(JitCodeIndex&& other) noexcept;
  ~JitCodeIndex();

  // Adds the code of a LOAD, or of a perf map's line. Code that lies there already with the same
  // name and size, with nothing newer over it, is not added again: some runtimes write all their
  // code once for each thread. It is added again where the search for it takes too long.
  void add(const JitCode& code);
  // Moves the code that starts at `from`, as a MOVE says.
  void move(std::uint64_t from, std::uint64_t to, std::uint64_t time_ns);
  // From that time on, no code lives in the range (munmap). 2^64 - 1 bytes stand for the whole
  // address space (exec). Also stored where no code is known, since records of the time before may
  // come late.
  void end(std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns);

  // The code at an address and a time. Answers are forgotten last. Names are valid until the index
  // is changed.
  [[nodiscard]] std::optional<JitCode> at(std::uint64_t address, std::uint64_t time_ns) const;
  // The code at an address and a time, if it is newer than `known`, and the index has `known` (by
  // range and name) from before it. `known` comes from another index of the same process.
  [[nodiscard]] std::optional<JitCode> successor_of(const JitCode& known, std::uint64_t address,
                                                    std::uint64_t time_ns) const;
  // Whether no code in the range came or ended after that time. False also where the search takes
  // too long.
  [[nodiscard]] bool is_unchanged_since(std::uint64_t address, std::uint64_t bytes,
                                        std::uint64_t time_ns) const;

  [[nodiscard]] std::size_t functions() const { return functions_; }
  // Without the copy that is made while the index forgets, which is smaller.
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] const JitCodeLosses& losses() const { return losses_; }

 private:
  static constexpr unsigned kLevels = 29;

  // Indexes of rows_, the oldest first.
  using Bucket = boost::container::small_vector<std::uint32_t, 2>;
  struct BucketHash {
    using is_avalanching = void;
    std::uint64_t seed;
    std::size_t operator()(std::uint64_t key) const {
      SeededHash hash(seed);
      hash.add(key);
      return hash.value();
    }
  };
  using Buckets = boost::unordered_flat_map<std::uint64_t, Bucket, BucketHash>;

  // What a search found; null: nothing. Incomplete: the search took too long.
  struct Found {
    const JitGeneration* row = nullptr;
    bool is_complete = true;
  };

  [[nodiscard]] bool has_unchanged(const JitGeneration& generation, std::string_view name) const;
  [[nodiscard]] bool is_overlaid(const JitGeneration& generation, std::size_t max_steps) const;
  void append(JitGeneration generation, std::string_view name);
  [[nodiscard]] Bucket::const_iterator place_in(const Bucket& bucket,
                                                const JitGeneration& row) const;
  [[nodiscard]] bool list(JitGeneration row, std::string_view name);
  void set_name(JitGeneration& row, std::string_view name);
  [[nodiscard]] std::string_view name_of(const JitGeneration& row) const;
  template <bool kYoungest, class Matches>
  [[nodiscard]] Found search(std::uint64_t first, std::uint64_t last, std::uint64_t time_ns,
                             const JitGeneration* bound, Matches matches,
                             std::size_t max_steps) const;
  [[nodiscard]] Found youngest_at(std::uint64_t address, std::uint64_t time_ns,
                                  std::size_t max_steps) const;
  [[nodiscard]] JitCode answer(const JitGeneration& row) const;
  void forget_some();
  void copy_row(std::size_t row);
  void replace_by_copy();

  JitCodeLimits limits_;
  std::deque<JitGeneration> rows_;
  std::vector<std::string> names_;  // blocks of kNamesBytes
  Buckets buckets_;
  std::array<std::size_t, kLevels> on_level_{};
  std::size_t functions_ = 0;
  std::size_t name_bytes_ = 0;
  std::size_t spilled_ids_ = 0;  // capacity of buckets outside of buckets_
  std::uint64_t next_serial_ = 1;
  std::uint64_t complete_since_ns_ = 0;  // what ended before may be forgotten
  JitCodeLosses losses_;
  std::unique_ptr<JitForgetting> forgetting_;  // null: there is room
  std::unique_ptr<JitCodeIndex> copy_;         // of the rows that stay
  std::size_t copied_ = 0;                     // rows that are copied, or forgotten
};

}  // namespace profd
