// A cache of unwind tables on disk, by content, so that a restart of profd need not parse again.
//
// The directory has mode 0700. Files are written under another name and renamed. A malformed file,
// and one of another build of profd, is ignored and replaced. Bytes and files are limited. Where
// there are too many, the least recently used tables are removed: first those of a user with over
// an eighth of either, then those of all users together over half, then any. What is left of the
// disk is for the windows: the tables take at most a quarter of what they and free space have
// together. The digest key is stored there too, since the names of the files depend on it. Owned by
// the loading thread.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectors/host/uid_owners.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

class TableCache {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
  static constexpr std::size_t kMaxFiles = 16'384;

  // Creates the directory, and the key if there is none. If `directory` is empty, nothing is stored
  // and the key is new.
  static Result<TableCache> open(const std::string& directory, std::uint64_t max_bytes = kMaxBytes,
                                 std::size_t max_files = kMaxFiles, UidOwners owners = UidOwners());

  [[nodiscard]] const DigestKey& key() const { return key_; }

  // The encoded table. `content` is a name of letters, digits and dashes, and begins with the uid
  // of the file's owner and a dash.
  [[nodiscard]] std::optional<std::string> find(const std::string& content) const;
  // Errors are ignored: the table is then not in the cache.
  void store(const std::string& content, const std::string& table);

 private:
  // Of the files of one user, of all users or of all.
  struct Use {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;

    void add(std::uint64_t bytes_of_file);
    void remove(std::uint64_t bytes_of_file);
    [[nodiscard]] bool is_over(const Use& limit) const {
      return bytes > limit.bytes || files > limit.files;
    }
    [[nodiscard]] Use part(std::uint64_t divisor) const {
      return {bytes / divisor, files / divisor};
    }
  };

  TableCache() = default;
  [[nodiscard]] std::uint64_t max_bytes() const;
  void remove_oldest(const Use& limit);

  UniqueFd directory_;
  UidOwners owners_;
  Use max_;
  Use use_;
  std::uint64_t maker_ = 0;  // identifies this build
  DigestKey key_;
};

}  // namespace profd
