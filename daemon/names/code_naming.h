// What one worker thread names code with: its parser and symbolizer, the names that it has found,
// and the kernel's functions.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "collectors/parser/parser.h"
#include "daemon/names/file_namer.h"
#include "daemon/names/kernel_names.h"
#include "daemon/names/line_budget.h"
#include "daemon/names/line_namer.h"
#include "daemon/names/name_cache.h"
#include "daemon/names/naming_stats.h"

namespace profd {

class CodeNaming {
 public:
  // `parser` and `kernel` are not null.
  explicit CodeNaming(
      std::unique_ptr<Parser> parser, DebugDirectories directories = {},
      std::shared_ptr<SharedKernelSymbols> kernel = std::make_shared<SharedKernelSymbols>())
      : parser_(std::move(parser)),
        files_(*parser_, lines_, cache_, std::move(directories)),
        kernel_(std::move(kernel)) {}
  CodeNaming(const CodeNaming&) = delete;
  CodeNaming& operator=(const CodeNaming&) = delete;

  [[nodiscard]] Parser& parser() { return *parser_; }
  [[nodiscard]] FileNamer& files() { return files_; }
  [[nodiscard]] KernelNames& kernel() { return kernel_; }
  [[nodiscard]] NameCache& cache() { return cache_; }

  // The budget of continuous mode as it is now.
  [[nodiscard]] LineBudget& window_lines() {
    const auto now = std::chrono::steady_clock::now();
    window_lines_.refill(now - std::exchange(refilled_at_, now));
    return window_lines_;
  }

  // Ends a session or window: counts how well it is named, and keeps no more than needed.
  void finish(const NameShares& shares) {
    shares_ += shares;
    lines_.end_children();
    files_.trim();
    kernel_.release();
  }

  // Counts addresses whose names came into the cache from windows.
  void add_read_back(std::uint64_t addresses) { read_back_ += addresses; }

  [[nodiscard]] LineNamer& lines() { return lines_; }

  [[nodiscard]] pid_t symbolizer() const { return lines_.child(); }  // -1: none; for tests

  [[nodiscard]] NamingStats stats() const {
    return {.shares = shares_,
            .lines = lines_.stats(),
            .debug_files = files_.debug_file_stats(),
            .looked_up = files_.looked_up(),
            .read_back = read_back_,
            .cached_files = cache_.files(),
            .cached_bytes = cache_.bytes()};
  }

 private:
  std::unique_ptr<Parser> parser_;
  LineNamer lines_;
  NameCache cache_;
  FileNamer files_;
  KernelNames kernel_;
  LineBudget window_lines_ = LineBudget::of_continuous_mode();
  std::chrono::steady_clock::time_point refilled_at_ = std::chrono::steady_clock::now();
  NameShares shares_;
  std::uint64_t read_back_ = 0;
};

// Calls CodeNaming::finish() at the end of a scope, whether or not the session could be written.
class NamingEnd {
 public:
  // `naming` must outlive *this. What refers to names must not.
  explicit NamingEnd(CodeNaming& naming) : naming_(naming) {}
  NamingEnd(const NamingEnd&) = delete;
  NamingEnd& operator=(const NamingEnd&) = delete;
  ~NamingEnd() {
    try {
      naming_.finish(shares_);
    } catch (const std::bad_alloc&) {
      // The next session trims the cache.
    }
  }

  // Of the session, once it is named.
  void set_shares(const NameShares& shares) { shares_ = shares; }

 private:
  CodeNaming& naming_;
  NameShares shares_;
};

}  // namespace profd
