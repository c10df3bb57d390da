// Which bytes of which files the samples of processes hit, to name these bytes.
//
// A hit counts samples, and of blocks the microseconds, since the longest waits are what a profile
// is read for: a byte, or a file, counts once for a stack, however many frames of the stack are
// there. A program can put any return addresses on its stack, a thousand of them in each
// sample. Used on a worker.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "daemon/names/file_namer.h"
#include "daemon/samples/snapshot.h"
#include "daemon/samples/stack_table.h"

namespace profd {

// FileNamer::kUnknownUser where it is not known.
[[nodiscard]] std::uint32_t uid_of(const ProcessSnapshot& process);

// Null: the frame is in no mapping that is known.
[[nodiscard]] const ProcessMapping* mapping_of_frame(const ProcessSnapshot& process,
                                                     const StackTable::Stack& stack,
                                                     const UserFrame& frame);

// Of the byte that the frame stands for, in the file of the mapping.
[[nodiscard]] std::uint64_t offset_of(const ProcessMapping& mapping, const UserFrame& frame,
                                      PcKind kind);

class FileHits {
 public:
  // `files` resolves uids and must outlive *this.
  explicit FileHits(FileNamer& files) : names_(files) {}

  void add(const ProcessSnapshot& process);

  [[nodiscard]] const std::map<FileKey, HitFile>& files() const { return files_; }
  [[nodiscard]] const HitFile& vdso() const { return vdso_; }  // without a file

 private:
  // A process, and the user for whose share its samples count.
  struct Owned {
    const ProcessSnapshot& process;
    std::uint32_t payer;
  };

  [[nodiscard]] HitFile* file_of(const Owned& owned, const ProcessMapping& mapping);
  static void add_process(const Owned& owned, const ProcessMapping& mapping, HitFile& hit);
  void count(std::uint64_t samples, std::uint32_t payer);

  FileNamer& names_;
  std::map<FileKey, HitFile> files_;
  HitFile vdso_;
  std::set<const HitFile*> of_process_;                   // that the current process has hit
  std::vector<std::pair<HitFile*, std::uint64_t>> hits_;  // of the current stack, with offsets
};

}  // namespace profd
