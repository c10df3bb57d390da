// The mapping and the addresses of the functions of programs/chain.c, or another program, as if it
// were running.

#pragma once

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "collectors/files/mapped_files.h"
#include "daemon/samples/process_table.h"
#include "formats/elf/elf_file.h"
#include "tests/formats/readers.h"

namespace profd::test {

inline constexpr std::uint64_t kPageMask = 4095;

// The key that the kernel side gives to the open file `fd`.
[[nodiscard]] inline FileKey key_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw std::runtime_error("fstat");
  FileKey key = file_key_of(status);
  key.generation = 1;
  return key;
}

[[nodiscard]] inline std::shared_ptr<const MappedFile> open_mapped(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw std::runtime_error("open " + path);
  const FileKey key = key_of(fd.get());
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw std::runtime_error("stat " + path);
  MappedFile file{.key = key, .path = path, .deleted = false, .fd = std::move(fd), .error = {}};
  file.owner = status.st_uid;
  file.is_private = (status.st_mode & S_IROTH) == 0;
  return std::make_shared<const MappedFile>(std::move(file));
}

class ChainProgram {
 public:
  // `path` is a copy of the program; `base` is where its first byte is loaded.
  ChainProgram(const std::string& path, std::uint64_t base,
               const std::string& program = CHAIN_PROGRAM)
      : base_(base), file_(open_mapped(path)), functions_(nm_functions(program)) {
    const ElfSummary elf = read_elf_summary(file_->fd.get()).value();
    for (const ElfSegment& segment : elf.segments) {
      if ((segment.flags & PF_X) != 0) code_ = segment;
    }
  }

  // In the process.
  [[nodiscard]] std::uint64_t address(const std::string& function, std::uint64_t offset = 0) const {
    return base_ + functions_.at(function) + offset;
  }
  [[nodiscard]] const std::shared_ptr<const MappedFile>& file() const { return file_; }

  [[nodiscard]] ProcessMapping mapping(std::uint64_t time_ns = 1) const {
    const std::uint64_t start = base_ + (code_.vaddr & ~kPageMask);
    const std::uint64_t end = base_ + ((code_.vaddr + code_.memory_bytes + kPageMask) & ~kPageMask);
    return {.start = start,
            .end = end,
            .file_offset = code_.offset & ~kPageMask,
            .time_ns = time_ns,
            .kind = PROFD_MAPPING_FILE,
            .file_key = file_->key,
            .file = file_};
  }

 private:
  std::uint64_t base_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::uint64_t> functions_;
  ElfSegment code_;
};

}  // namespace profd::test
