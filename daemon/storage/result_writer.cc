#include "daemon/storage/result_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <stdlib.h>

#include "daemon/storage/file_io.h"

namespace profd {
namespace {

constexpr std::string_view kMagic = "profdres";
constexpr std::size_t kTrailerBytes = 24;

void put_u64(std::uint64_t value, std::string& bytes) {
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

std::uint64_t u64_at(const std::string& bytes, std::size_t offset) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  }
  return value;
}

// What the daemon can still write to the file system of `file`.
std::uint64_t free_bytes(int file) {
  struct statvfs disk {};
  if (::fstatvfs(file, &disk) != 0) return ResultAccount::kUnknown;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

Error no_result(const std::string& why) {
  return fail(ErrorCode::kMalformed, "the file is no result: " + why);
}

}  // namespace

Result<ResultWriter> ResultWriter::create(const std::string& results_dir, ResultAccount account) {
  UniqueFd results = open_directory(AT_FDCWD, results_dir);
  if (!results.valid()) return fail_errno("could not open " + results_dir);
  std::string path = results_dir + "/.partial-XXXXXX";  // mkostemp: 0600, a new name
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) return fail_errno("could not make a file in " + results_dir);
  const std::string name = path.substr(path.rfind('/') + 1);
  return ResultWriter(std::move(results), std::move(file), name, std::move(account));
}

ResultWriter::~ResultWriter() {
  if (!results_.valid() || name_.empty()) return;
  (void)::unlinkat(results_.get(), name_.c_str(), 0);
  account_.give_back(bytes_);
}

Result<void> ResultWriter::append(std::string_view bytes, const std::string& what) {
  if (!account_.charge(bytes.size(), free_bytes(file_.get()))) return account_.refusal();
  bytes_ += bytes.size();
  return write_all(file_.get(), bytes, what + " to profd's own disk");
}

Result<void> ResultWriter::add(const std::string& path, std::string_view bytes) {
  const std::uint64_t offset = bytes_;
  if (!places_.emplace(path, files_.size()).second) {
    return fail(ErrorCode::kInternal, "the result has a file " + path + " already");
  }
  if (Result<void> appended = append(bytes, path); !appended) return appended;
  files_.push_back({.path = path, .offset = offset, .bytes = bytes.size()});
  return {};
}

Result<std::string> ResultWriter::read_back(const std::string& path) const {
  const auto place = places_.find(path);
  if (place == places_.end()) return fail(ErrorCode::kNotFound, "the result has no file " + path);
  const PackedFile& file = files_[place->second];
  return read_at(file_.get(), file.offset, file.bytes);
}

Result<void> ResultWriter::commit(const std::string& name, std::string_view index) {
  std::string end(index);
  end.append(kMagic);
  put_u64(bytes_, end);
  put_u64(index.size(), end);
  if (Result<void> ended = append(end, name); !ended) return ended;
  if (::fsync(file_.get()) != 0) return fail_errno("could not write " + name_);
  if (::renameat2(results_.get(), name_.c_str(), results_.get(), name.c_str(), RENAME_NOREPLACE) !=
      0) {
    if (errno == EEXIST) return fail(ErrorCode::kBusy, "result " + name + " exists already");
    return fail_errno("could not rename " + name_ + " to " + name);
  }
  if (::fsync(results_.get()) != 0) {
    const Error error = fail_errno("could not sync the results directory");
    // Undone, since the next try would find the name taken, and the caller knows of no result.
    if (::renameat2(results_.get(), name.c_str(), results_.get(), name_.c_str(),
                    RENAME_NOREPLACE) != 0) {
      name_.clear();
    }
    return error;
  }
  name_.clear();
  return {};
}

Result<std::string> read_at(int file, std::uint64_t offset, std::uint64_t bytes) {
  std::string read(bytes, '\0');
  for (std::size_t done = 0; done < read.size();) {
    const ssize_t got =
        ::pread(file, read.data() + done, read.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("could not read a result");
    if (got == 0) return fail(ErrorCode::kIo, "a result ends too early");
    done += static_cast<std::size_t>(got);
  }
  return read;
}

Result<ResultIndex> read_result_index(int file, std::uint64_t max_bytes) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return fail_errno("could not read a result");
  if (!S_ISREG(status.st_mode)) return no_result("it is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kTrailerBytes) return no_result("it is too short");
  const Result<std::string> trailer = read_at(file, size - kTrailerBytes, kTrailerBytes);
  if (!trailer) return trailer.error();
  const std::uint64_t offset = u64_at(*trailer, 8);
  const std::uint64_t bytes = u64_at(*trailer, 16);
  const bool fits = offset <= size - kTrailerBytes && bytes == size - kTrailerBytes - offset;
  if (!trailer->starts_with(kMagic) || !fits) return no_result("it does not end with an index");
  if (bytes > max_bytes) return fail(ErrorCode::kTooLarge, "the index of a result is too large");
  Result<std::string> text = read_at(file, offset, bytes);
  if (!text) return text.error();
  return ResultIndex{.text = std::move(*text), .offset = offset, .file_bytes = size};
}

Result<void> remove_tree(int parent, const std::string& name) {
  std::error_code error;
  std::filesystem::remove_all("/proc/self/fd/" + std::to_string(parent) + "/" + name, error);
  if (error) return fail_errno("could not remove " + name, error.value());
  return {};
}

Result<std::string> hide(int parent, const std::string& name) {
  std::string hidden = ".removed-" + name;
  if (::renameat(parent, name.c_str(), parent, hidden.c_str()) == 0) return hidden;
  return fail_errno("could not remove " + name);
}

Result<void> remove_whole(int parent, const std::string& name) {
  const Result<std::string> hidden = hide(parent, name);
  return hidden ? remove_tree(parent, *hidden) : Result<void>(hidden.error());
}

}  // namespace profd
