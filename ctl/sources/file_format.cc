#include "ctl/sources/file_format.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "formats/base/errors.h"
#include "formats/base/gzip.h"

namespace profd {
namespace {

constexpr const char* kFormatsHint =
    "profctl reads .pb.gz, .prof and .folded files, and the directories that 'profctl record' "
    "writes";

constexpr const char* kSmallerHint =
    "take a shorter time or a part of the host: profctl export --by unit";

struct KnownFile {
  std::string_view start;
  const char* what;
  const char* hint;
};
constexpr auto kKnownFiles = std::to_array<KnownFile>({
    {"PERFILE2", "is a file of perf record", "perf report -i FILE shows it"},
    {"heap profile:", "is a heap profile of gperftools, and no CPU profile",
     "google-pprof PROGRAM FILE shows it"},
    {"--- contention", "is a contention profile, and no CPU profile",
     "go tool pprof FILE shows it"},
    {"\x7f"
     "ELF",
     "is a program or a library", kFormatsHint},
    {"{", "is JSON", "speedscope.app shows speedscope files; profctl reads the .pb.gz"},
    {"<", "is HTML or XML", kFormatsHint},
    {"DTiJ", "is a jitdump file", "profd reads it while it samples the process"},
    {"JiTD", "is a jitdump file", "profd reads it while it samples the process"},
});

// The first slot is 0, and the second the number of the further ones, of 4 or 8 bytes, in either
// byte order (formats/profile/gperftools_format.h). A file that ends before is cut, which its
// reader says.
bool has_gperftools_header(std::string_view bytes) {
  constexpr std::size_t kSmallest = 16;
  const auto is_zero = [&](std::size_t from, std::size_t to) {
    return bytes.substr(from, to - from).find_first_not_of('\0') == std::string_view::npos;
  };
  if (!is_zero(0, 4)) return false;
  if (bytes.size() < kSmallest) return true;
  return is_zero(4, 8) ? !is_zero(8, kSmallest) : !is_zero(4, 8);
}

// The first line ends in a number behind a blank.
bool is_folded_text(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const std::size_t blank = line.rfind(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == line.size()) return false;
  if (line.find('\0') != std::string_view::npos) return false;
  return std::ranges::all_of(line.substr(blank + 1), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '\r';
  });
}

// The first field of a profile.proto is a small number of a message or a number.
bool may_be_protobuf(std::string_view bytes) {
  const auto tag = static_cast<unsigned char>(bytes.front());
  const unsigned field = tag >> 3;
  const unsigned type = tag & 7U;
  return field >= 1 && field <= 15 && (type == 0 || type == 2);
}

}  // namespace

Result<FileFormat> format_of_file(std::string_view bytes, bool is_folded) {
  if (bytes.empty()) return empty_file(false);
  if (is_folded) return FileFormat::kFolded;
  if (is_gzip(bytes)) return FileFormat::kPprof;
  if (has_gperftools_header(bytes)) return FileFormat::kGperftools;
  for (const KnownFile& known : kKnownFiles) {
    if (bytes.starts_with(known.start))
      return fail(ErrorCode::kMalformed, std::string("it ") + known.what, known.hint);
  }
  if (is_folded_text(bytes)) return FileFormat::kFolded;
  if (may_be_protobuf(bytes)) return FileFormat::kPprof;
  return fail(ErrorCode::kMalformed, "it is no profile that profctl knows", kFormatsHint);
}

Error empty_file(bool is_packed) {
  return fail(ErrorCode::kMalformed,
              is_packed ? "it is empty: gzip data without content" : "it is empty",
              "the program that wrote it may not have ended yet");
}

Error too_large_file() {
  return fail(ErrorCode::kTooLarge,
              "it is larger than " + std::to_string(kMaxSourceBytes >> 20) + " MiB", kSmallerHint);
}

Error error_of_open(const Error& error) {
  if (error.code != ErrorCode::kPermissionDenied || !error.hint.empty()) return error;
  return fail(error.code, error.message, "read it as root, or as the user who owns it");
}

Error error_of_file(const std::string& path, const Error& error) {
  std::string hint = error.hint;
  if (hint.empty() && error.code == ErrorCode::kTooLarge) {
    hint = kSmallerHint;
  } else if (hint.empty() && error.code == ErrorCode::kMalformed) {
    hint = "the file may be cut: compare its size with that of the original";
  }
  return fail(error.code, path + ": " + error.message, hint);
}

}  // namespace profd
