// The interpreters in files that are mapped as code: their numbers in the BPF programs, and what
// was refused, for the status.
//
// Files of equal content of the interpreter (two copies of one libpython) share a number. Users may
// make files that look like interpreters: all users but root have half of the numbers, one user an
// eighth. A file without a number has no interpreted frames, and counts as kNoRoom. On the io
// thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/interpreters/maps.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// A file with an interpreter, for `profctl status`, `ps` and `doctor`.
struct InterpreterFile {
  std::string path;  // as it was first mapped
  std::string text;  // "python 3.11.2"
  RuntimeVerdict verdict = RuntimeVerdict::kKnown;
  bool has_room = true;  // false: known, but all numbers of its user are in use
};

// The reason of a file that is known and has no number.
inline constexpr std::string_view kNoInterpreterNumber = "no_number";

// "known", else why its frames are not read.
[[nodiscard]] inline std::string_view verdict_of(const InterpreterFile& file) {
  return file.has_room ? name_of(file.verdict) : kNoInterpreterNumber;
}

using InterpreterFiles = std::map<FileKey, InterpreterFile>;

class Runtimes {
 public:
  static constexpr std::size_t kMaxOfUsers = PROFD_MAX_RUNTIMES / 2;
  static constexpr std::size_t kMaxOfUser = PROFD_MAX_RUNTIMES / 8;
  // Of the list for the status; the first ones stay.
  static constexpr std::size_t kMaxListed = 256;

  // Writes the layouts of all versions. `maps` may be null: then no file gets a number.
  explicit Runtimes(std::unique_ptr<InterpreterMaps> maps);
  Runtimes(const Runtimes&) = delete;
  Runtimes& operator=(const Runtimes&) = delete;
  ~Runtimes();

  // The number for the tables of a file (profd_table::runtime). 0: none. To be called once for each
  // file whose table is installed; `payer` is the uid that pays for its table.
  [[nodiscard]] std::uint16_t add(const FileKey& file, const FoundRuntime& found,
                                  std::string_view path, std::uint32_t payer);
  // The file's table is removed. The number of a runtime that no file has is free for others.
  void remove(const FileKey& file);

  // Whether this offset in the file is code of the interpreter's loop. False for unknown files.
  [[nodiscard]] bool is_loop(const FileKey& file, std::uint64_t offset) const;
  // PROFD_RUNTIME_NONE: the file has no interpreter that is known.
  [[nodiscard]] profd_runtime_kind kind_of(const FileKey& file) const;

  [[nodiscard]] std::vector<InterpreterFile> list() const;
  // Those of the list whose frames are not read.
  [[nodiscard]] InterpreterFiles refused() const;
  // The files with a known runtime, for the names of their loops in a snapshot.
  [[nodiscard]] std::map<FileKey, profd_runtime> by_file() const;
  // Files, by RuntimeVerdict, since the start.
  [[nodiscard]] const std::array<std::uint64_t, kRuntimeVerdictCount>& counts() const;
  [[nodiscard]] InterpreterMaps* maps() const;  // null: none

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace profd
