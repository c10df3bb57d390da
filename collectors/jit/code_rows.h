// The unwind rows of the JIT code of one code map, as it is now. Functions do not overlap: newer
// code removes the rows of the code that lay there. For the io thread, which gives others what
// share() returns.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectors/jit/function_blocks.h"
#include "formats/base/result.h"
#include "formats/jit/unwind_rows.h"

namespace profd {

// Functions that are not needed any more. To destroy the largest number of them takes 50 ms, so the
// io thread does it in parts.
class JitForgottenRows {
 public:
  void add(JitFunctionBlocks::Functions functions) { functions_.push_back(std::move(functions)); }

  // Destroys kSome at most. False: there are more.
  bool destroy_some();
  static constexpr std::size_t kSome = 4096;

 private:
  std::vector<JitFunctionBlocks::Functions> functions_;
};

class JitCodeRows {
 public:
  static constexpr std::size_t kMaxRows = std::size_t{1} << 18;
  // Areas of 4 GiB (address >> 32) with rows, each of which needs a table. A runtime uses one or
  // two.
  static constexpr std::size_t kMaxAreas = 16;

  // What erase() removes of many functions is given to `forgotten`. Null: it is destroyed at once.
  explicit JitCodeRows(std::shared_ptr<JitForgottenRows> forgotten = nullptr)
      : forgotten_(std::move(forgotten)) {}

  // A function beyond kMaxRows or kMaxAreas has no rows: frame pointers are followed there. False
  // where it is beyond kMaxAreas.
  bool set(const JitUnwindRows& function);
  void erase(std::uint64_t start, std::uint64_t end);

  // The rows as they are now, as a value for another thread. Takes 1 ms at most.
  [[nodiscard]] JitCodeRows share();

  // Adds the functions of `others` in an area that overlap none of these.
  void add_missing(const JitCodeRows& others, std::uint32_t area);

  // Without what shared rows alone still have.
  [[nodiscard]] std::size_t memory_bytes() const;
  // A count that grows with each change.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // Those with rows.
  [[nodiscard]] std::vector<std::uint32_t> areas() const;

  // The encoded table (formats/unwind/unwind_table.h) of an area. The offsets in it are the lower
  // halves of the addresses. Takes 100 ms where there are very many functions.
  [[nodiscard]] Result<std::string> encode(std::uint32_t area) const;

 private:
  bool add(JitFunctionRows function);

  std::shared_ptr<JitForgottenRows> forgotten_;
  JitFunctionBlocks functions_;
  std::map<std::uint32_t, std::size_t> areas_;  // the number of functions of each
  std::size_t rows_ = 0;
  std::uint64_t changes_ = 0;
};

// The rows of a process's layers (code_map.h) at one time, from which tables are made. A value for
// another thread.
class JitRowsOfProcess {
 public:
  // Where functions overlap, those of the layer that was added first count.
  void add_layer(JitCodeRows rows) { layers_.push_back(std::move(rows)); }

  // Those with rows, kMaxAreas at most.
  [[nodiscard]] std::vector<std::uint32_t> areas() const;
  // As JitCodeRows::encode().
  [[nodiscard]] Result<std::string> encode(std::uint32_t area) const;

 private:
  std::vector<JitCodeRows> layers_;
};

}  // namespace profd
