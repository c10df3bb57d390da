// The files that sampled processes have mapped: opened once each, by the kernel's own key, while
// they are there.
//
// A file is opened through /proc/PID/map_files/START-END, which names exactly the mapped file, also
// when it is deleted, on an overlay or in another mount namespace. When the process is gone
// already, the dentry names of the record lead to it, if the file there still has the key. Owned by
// the io thread; a MappedFile is immutable and may go to the worker.

#pragma once

#include <memory>
#include <string>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/sampling/sample.h"
#include "formats/result.h"
#include "formats/unique_fd.h"

namespace profd {

struct MappedFile {
  FileKey key;
  std::string path;  // as the kernel names it, without " (deleted)"; never empty
  bool deleted = false;
  UniqueFd fd{};        // open for reading, a regular file; invalid when nothing could be opened
  std::string error{};  // why fd is invalid
};

class MappedFiles {
 public:
  // The file of a mapping record, from the table or opened now. Null for a mapping without a file.
  std::shared_ptr<const MappedFile> find_or_open(const MappingView& mapping);

  // Forgets files that nobody else holds.
  void release_unused();

  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  struct KeyHash {
    std::size_t operator()(const FileKey& key) const noexcept;
  };
  boost::unordered_flat_map<FileKey, std::shared_ptr<const MappedFile>, KeyHash> files_;
};

// "bin\0usr\0" -> "/usr/bin". Empty for no names.
[[nodiscard]] std::string path_from_names(std::string_view names);

}  // namespace profd
