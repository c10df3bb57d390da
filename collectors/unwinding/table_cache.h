// Unwind tables on the disk, by content, so that a restart parses nothing again.
//
// A directory of our own, 0700. Files are made under another name and renamed; what is damaged, or
// was made by another build of profd, is made anew. Bounded in bytes and files: what was used least
// recently goes. Holds the digest key too: names in the cache mean nothing under another one. Owned
// by the loading thread.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

class TableCache {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
  static constexpr std::size_t kMaxFiles = 16'384;

  // Makes the directory, and the key where there is none. Without a directory (empty) nothing is
  // kept, and the key is a new one.
  static Result<TableCache> open(const std::string& directory, std::uint64_t max_bytes = kMaxBytes,
                                 std::size_t max_files = kMaxFiles);

  [[nodiscard]] const DigestKey& key() const { return key_; }

  // The encoded table. `content` is a name of letters, digits and dashes.
  [[nodiscard]] std::optional<std::string> find(const std::string& content) const;
  // What can't be stored is not.
  void store(const std::string& content, const std::string& table);

 private:
  TableCache() = default;
  void remove_oldest();

  UniqueFd directory_;
  std::uint64_t max_bytes_ = 0;
  std::size_t max_files_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t files_ = 0;
  std::uint64_t maker_ = 0;  // stands for this build
  DigestKey key_;
};

}  // namespace profd
