// Reads the files of windows in their order. While the caller works on one, threads read the next
// two: to read a file takes about as long as to merge it.
//
// next() is called on one thread at a time. The destructor waits for files that are being read;
// there are none after the last one, and after drop().

#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/history/range_files.h"
#include "daemon/history/window_file.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

// Not movable: `tables` borrows from `file`.
struct ReadWindow {
  explicit ReadWindow(const HistoryFile& from)
      : name(from.name),
        file(WindowFile::open(from.directory, from.name)),
        tables(file ? file->tables() : file.error()) {}
  ReadWindow(const ReadWindow&) = delete;
  ReadWindow& operator=(const ReadWindow&) = delete;
  ~ReadWindow() = default;

  std::string name;
  Result<WindowFile> file;
  Result<PprofTables> tables;  // the error of `file` if it has one
};

class WindowsAhead {
 public:
  explicit WindowsAhead(std::vector<HistoryFile> files) : files_(std::move(files)) {}

  // Null after the last one.
  [[nodiscard]] std::unique_ptr<ReadWindow> next();

  // There is no next one any more.
  void drop();

 private:
  static constexpr std::size_t kAhead = 2;

  void begin();

  std::vector<HistoryFile> files_;
  std::size_t begun_ = 0;
  std::deque<std::future<std::unique_ptr<ReadWindow>>> ahead_;  // the next ones
};

}  // namespace profd
