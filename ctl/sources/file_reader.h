// Reads the files of a source: in this process where they are the caller's or root's, else in a
// sandboxed child, since another user may have chosen their bytes.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "collectors/sandbox/child.h"
#include "collectors/sandbox/client.h"
#include "collectors/sandbox/spawn.h"
#include "ctl/sources/code_names.h"
#include "ctl/views/samples.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/profile/lineless_files.h"
#include "formats/profile/profile.h"
#include "formats/profile/times_file.h"

namespace profd {

// What session.json says about a directory and its profiles.
struct DirectoryProfile {
  std::uint32_t pid = 0;
  std::string comm{};
  std::string unit{};
  std::string container{};
  std::string runtime{};  // of its JIT code, as in labels: "nodejs"; empty: unknown, or none
  std::string path{};     // relative to the directory
};
struct DirectorySummary {
  std::string event{};
  std::int64_t duration_ns = 0;
  std::int64_t start_ns = 0;   // since the epoch; 0: unknown
  std::int64_t period_ns = 0;  // 0: the event is no time
  std::vector<DirectoryProfile> profiles{};
  SampleLosses losses{};
};

class SourceFile {
 public:
  // Errors as of open_regular_file().
  [[nodiscard]] static Result<SourceFile> open(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Neither the caller nor root owns it.
  [[nodiscard]] bool is_of_another_user() const { return is_of_another_user_; }

 private:
  SourceFile(UniqueFd fd, std::string path, bool is_of_another_user)
      : fd_(std::move(fd)), path_(std::move(path)), is_of_another_user_(is_of_another_user) {}

  UniqueFd fd_;
  std::string path_;
  bool is_of_another_user_;
};

class FileReader {
 public:
  // `spawn` makes another child in tests.
  explicit FileReader(sandbox::Spawn spawn = {}) : spawn_(std::move(spawn)) {}

  // A profile without names where the file is of gperftools. Errors have the path.
  [[nodiscard]] Result<std::variant<Samples, Profile>> read(const SourceFile& file);
  [[nodiscard]] Result<DirectorySummary> read_summary(const SourceFile& file);
  // Of the samples of all profiles of a directory, in their order. Errors have the path.
  [[nodiscard]] Result<TimesFile> read_times(const SourceFile& file);
  // Of a .pb.gz or .pb file. Errors have the path.
  [[nodiscard]] Result<std::vector<LinelessFile>> find_lineless(const SourceFile& file);
  // As find_mapped_names().
  [[nodiscard]] Result<std::vector<NamedAddress>> find_names(
      const SourceFile& file, const ProfileMapping& mapping,
      std::span<const std::uint64_t> addresses);

 private:
  [[nodiscard]] Result<std::string> ask(const sandbox::Request& request,
                                        std::span<const int> files);

  sandbox::Spawn spawn_;
  std::unique_ptr<sandbox::Client> child_;  // null: not needed so far
};

// For sandbox::run_as_child().
extern const sandbox::ChildKind kSourceReaderChild;

}  // namespace profd
