// The names that were looked up, by file, so that each address of a file is looked up once.
//
// Files with one build id share their names if they have one owner: any user can copy the build id
// of another user's file. Bounded; the file that was used least recently is dropped first. On a
// worker.

#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "daemon/names/name_table.h"

namespace profd {

class NameCache {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

  explicit NameCache(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  // The names of a file, by its identity; empty at first. Valid until the next trim().
  NameTable& names_of(const std::string& identity);

  // NameTable::mark_stale() for all files.
  void mark_stale();

  // Drops files until the limit is kept.
  void trim();

  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::size_t files() const { return files_.size(); }

 private:
  struct File {
    NameTable names;
    std::list<std::string>::iterator recency;
  };

  std::size_t max_bytes_;
  std::map<std::string, File> files_;
  std::list<std::string> recency_;  // the most recent first
};

}  // namespace profd
