// A walk through the traces in a directory, a few entries at a time: every user may fill the
// directory, and the io thread has others to serve.

#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// The names of traces begin with it.
inline constexpr std::string_view kTracePrefix = "xray-log.";

class DirectoryScan {
 public:
  // Of one step(), which ends at the first limit that it reaches. An entry takes some 2 us, and 20
  // us more where its file is opened.
  static constexpr std::size_t kMaxEntriesOfStep = 64;
  static constexpr std::chrono::milliseconds kMaxStep{2};
  // Of one walk; what is beyond them is not found. So many take about a second.
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 20;

  explicit DirectoryScan(std::size_t max_entries = kMaxEntries) : max_entries_(max_entries) {}

  using Found = std::function<void(const char* name, const struct stat& status)>;

  // Begins at the first entry of the directory that `directory` is open on, which must stay open.
  [[nodiscard]] Result<void> begin(int directory);

  // Calls `found` for the traces among the next entries. `status` is that of the entry itself, not
  // of what a link leads to. False: the walk is over.
  bool step(const Found& found);

  // Whether the last walk that is over ended at its limit.
  [[nodiscard]] bool was_cut() const { return was_cut_; }

 private:
  using Entries = std::unique_ptr<DIR, int (*)(DIR*)>;

  Entries entries_{nullptr, ::closedir};  // null: no walk is under way
  int directory_ = -1;
  std::size_t max_entries_;
  std::size_t seen_ = 0;  // entries
  bool was_cut_ = false;
};

}  // namespace profd
