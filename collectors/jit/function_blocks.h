// Functions with unwind rows, by address; none overlap. For JitCodeRows.
//
// They lie in blocks, and what share() returns has the same blocks: so the functions of a large
// program are given to another thread without a copy. A block that is shared never changes again.
// The first change of its functions replaces it with a copy, whether or not the other thread still
// has it, so the threads need no agreement.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "formats/jit/unwind_rows.h"

namespace profd {

// As JitUnwindRows. Copies share the rows.
class JitFunctionRows {
 public:
  explicit JitFunctionRows(const JitUnwindRows& function);

  [[nodiscard]] std::uint64_t start() const { return start_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] std::span<const UnwindRow> rows() const { return {rows_.get(), count_}; }

 private:
  std::uint64_t start_;
  std::uint64_t end_;
  std::size_t count_;
  std::shared_ptr<const UnwindRow[]> rows_;
};

class JitFunctionBlocks {
 public:
  using Functions = std::vector<JitFunctionRows>;

  // A larger block takes longer to copy, and more blocks take longer to share.
  static constexpr std::size_t kMaxBlock = 128;  // functions

  JitFunctionBlocks() = default;
  JitFunctionBlocks(JitFunctionBlocks&&) = default;
  JitFunctionBlocks& operator=(JitFunctionBlocks&&) = default;
  JitFunctionBlocks& operator=(const JitFunctionBlocks&) = delete;
  ~JitFunctionBlocks() = default;

  // The same functions, as a value for another thread.
  [[nodiscard]] JitFunctionBlocks share();

  // The function must not overlap one that is there.
  void insert(JitFunctionRows function);

  // Those that overlap the addresses, by address. `end` is behind the last address.
  [[nodiscard]] Functions find(std::uint64_t start, std::uint64_t end) const;

  // The same, and removes them.
  [[nodiscard]] Functions take(std::uint64_t start, std::uint64_t end);

  [[nodiscard]] std::size_t size() const { return size_; }

  // Two neighbours have together more than half of kMaxBlock.
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Block {
    std::uint64_t version = 0;
    Functions functions;
  };
  // By an address that is not above that of the first function. The first one is 0, so each
  // function has its block.
  using Blocks = std::map<std::uint64_t, std::shared_ptr<Block>>;

  JitFunctionBlocks(const JitFunctionBlocks&) = default;

  [[nodiscard]] Functions& to_change(std::shared_ptr<Block>& block) const;
  void add_block(std::uint64_t from, Functions functions);
  void join_around(std::uint64_t address);

  Blocks blocks_;
  std::size_t size_ = 0;
  std::uint64_t version_ = 0;  // blocks of an earlier version are shared
};

}  // namespace profd
