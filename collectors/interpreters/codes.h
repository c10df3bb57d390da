// The code objects of processes that interpret code: a number for each id that a sample has, and
// the raw bytes of its announcement.
//
// A number stands for one code object of one process, is given when the id is first seen, in a
// sample or in an announcement, and never used for another one: so stacks need no times, and the
// order of rings does not matter. Bytes are kept as they are, since only the parser may decode
// them, and only those of sampled code need to be, when a profile is written (InterpretedTable).
//
// Memory is bounded: kMaxBytes in all, half of it for all users but root, an eighth for one; a
// process has kMaxCodes. Code without room has number 0, whose name is "[over share]", and is
// counted by user. What a process had goes when it has ended and no session needs it. Equal file
// names of a process are kept once. On the io thread; tables are values for workers.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/process_users.h"
#include "collectors/host/user_refusals.h"
#include "collectors/interpreters/maps.h"
#include "formats/interpreters/code.h"

namespace profd {

// The announcement of a code object, as a value: 80 bytes and its texts. RawCode itself would take
// twice as much, of 10,000 of them.
class KeptCode {
 public:
  // `file` is kept by the process.
  KeptCode(const RawCode& code, std::shared_ptr<const std::string> file);

  // Borrows from *this.
  [[nodiscard]] RawCode raw() const;
  [[nodiscard]] std::size_t bytes() const { return sizeof(*this) + texts_.size(); }

 private:
  std::uint64_t address_;
  std::uint32_t first_line_;
  std::uint32_t units_;
  std::array<std::uint16_t, PROFD_CODE_TEXTS> text_bytes_{};
  std::array<std::uint8_t, PROFD_CODE_TEXTS> text_kinds_{};
  std::uint8_t kind_;
  std::uint8_t layout_;
  std::uint8_t cut_;
  std::shared_ptr<const std::string> file_;  // null: absent
  std::string texts_;                        // all but the file, in their order
};

// The code objects of one process by number, from 1. Shared with workers: never changes then.
class InterpretedTable {
 public:
  static constexpr std::size_t kBlock = 128;  // codes

  // Null: not announced, or 0, or beyond the last one.
  [[nodiscard]] const KeptCode* find(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t size() const { return size_; }       // numbers so far
  [[nodiscard]] profd_runtime_kind kind() const { return kind_; }  // of the latest announcement

  // The others are not for workers, and only for a table that none has: InterpretedCodes copies a
  // shared one first, which copies pointers to blocks alone. The number of a new code object.
  [[nodiscard]] std::uint32_t add();
  // Replaces its block by a copy where `is_block_shared`.
  void set(std::uint32_t number, std::shared_ptr<const KeptCode> code, bool is_block_shared);

 private:
  using Block = std::vector<std::shared_ptr<const KeptCode>>;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::uint32_t size_ = 0;
  profd_runtime_kind kind_ = PROFD_RUNTIME_NONE;
};

struct CodeStats {
  std::uint64_t processes = 0;
  std::uint64_t codes = 0;        // announced, that are kept
  std::uint64_t bytes = 0;        // of memory, an upper bound
  std::uint64_t announced = 0;    // records, since the start
  std::uint64_t repeated = 0;     // of these, that were known: of two CPUs at once
  std::uint64_t refused = 0;      // ids and records without room
  std::uint64_t asked_again = 0;  // ids that were not announced within kAskAgain
};

class InterpretedCodes {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxBytesOfUsers = kMaxBytes / 2;
  static constexpr std::size_t kMaxBytesOfUser = kMaxBytes / 8;
  static constexpr std::uint32_t kMaxCodes = 1U << 16;  // of a process
  // What an id takes before it is announced.
  static constexpr std::size_t kIdBytes = 64;
  // An id that samples have and that is not announced by then is asked for again.
  static constexpr std::chrono::seconds kAskAgain{1};

  // `refusals` may be null, and gets kRefused by user; it must outlive *this.
  explicit InterpretedCodes(UserRefusals* refusals = nullptr,
                            ProcessUsers::IsGone is_gone = profd::is_gone);
  static constexpr const char* kRefused = "interpreted_code";
  InterpretedCodes(const InterpretedCodes&) = delete;
  InterpretedCodes& operator=(const InterpretedCodes&) = delete;
  ~InterpretedCodes();

  // Null (the default): nothing can be asked again. Must outlive *this, or be set to null before.
  void set_maps(InterpreterMaps* maps);

  // `user` is the one whose process it is (uid_owners.h). 0: there is no room for it. 50 ns for a
  // known id.
  [[nodiscard]] std::uint32_t number_of(const ProcessKey& process, std::uint64_t id,
                                        std::uint32_t user) noexcept;
  void on_code(const InterpretedCodeView& code, std::uint32_t user) noexcept;

  // What is known of a process now, for a snapshot. Null: it interprets nothing.
  [[nodiscard]] std::shared_ptr<const InterpretedTable> share(const ProcessKey& process);

  // To be called every second: asks again, kMaxAsked ids at most, and counts refusals by user.
  void tick(Clock::time_point now);
  static constexpr std::size_t kMaxAsked = 256;

  // Forgets the processes that have ended and that `needed` refuses.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] CodeStats stats() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace profd
