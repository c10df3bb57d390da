#include "ctl/ship/ship_status.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"
#include "formats/proc/passwd.h"

namespace profd {
namespace {

// Users of the system, as profd-ship is, come first.
constexpr std::size_t kMaxPasswdBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxReportBytes = std::size_t{16} << 10;
constexpr std::size_t kMaxReports = 64;
constexpr std::size_t kMaxEntries = 1000;  // of the directory
constexpr std::chrono::seconds kMaxReportAge{30};
constexpr std::string_view kReportSuffix = ".report";
constexpr const char* kLockFile = "running";
constexpr const char* kOwner = "profd-ship";

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// The names of reports, sorted; at most kMaxReports.
std::vector<std::string> report_names(int directory) {
  std::vector<std::string> names;
  UniqueFd again(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseDirectory> stream(again.valid() ? ::fdopendir(again.get())
                                                                  : nullptr);
  if (!stream) return names;
  (void)again.release();
  for (std::size_t i = 0; i < kMaxEntries && names.size() < kMaxReports; ++i) {
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    if (name.size() > kReportSuffix.size() && name.ends_with(kReportSuffix)) {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

// A lock for writing, which only a process that may write to the file can have.
struct flock whole_file_lock(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Of the last write. Its owner may set any.
ShipTime time_of(const struct stat& file) {
  constexpr std::int64_t kLatest = 7'000'000'000;  // a time of nanoseconds ends later
  return ShipTime{std::chrono::seconds(std::clamp<std::int64_t>(file.st_mtim.tv_sec, 0, kLatest))};
}

bool is_of_known_user(const struct stat& file) {
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
  return file.st_uid == 0 || file.st_uid == ::geteuid() || is_ship_user(file.st_uid);
}

// Opens a file of the directory without waiting, if it may be used.
Result<UniqueFd> open_checked(int directory, const std::string& name, struct stat& file) {
  UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("could not open it");
  if (::fstat(fd.get(), &file) != 0) return fail_errno("could not check it");
  if (!S_ISREG(file.st_mode)) return malformed("it is not a regular file");
  if (!is_of_known_user(file)) {
    return fail(ErrorCode::kPermissionDenied, "others than root and profd-ship may write to it");
  }
  return fd;
}

Result<EndpointReport> read_report(int directory, const std::string& name, struct stat& file) {
  const auto fd = open_checked(directory, name, file);
  if (!fd) return fd.error();
  const auto text = read_all(fd->get(), "it", kMaxReportBytes + 1);
  if (!text) return text.error();
  if (text->size() > kMaxReportBytes) {
    return fail(ErrorCode::kTooLarge, "it has more than 16 KiB");
  }
  auto report = parse_endpoint_report(*text);
  if (report && report->name + std::string(kReportSuffix) != name) {
    return malformed("it is of another endpoint");
  }
  return report;
}

bool is_locked(int directory) {
  struct stat file {};
  const auto fd = open_checked(directory, kLockFile, file);
  if (!fd) return false;
  struct flock lock = whole_file_lock(F_RDLCK);
  return ::fcntl(fd->get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void read_reports(int directory, ShipStatus& status, ShipTime now) {
  std::optional<ShipTime> written;
  for (const std::string& name : report_names(directory)) {
    struct stat file {};
    auto report = read_report(directory, name, file);
    if (!report) {
      status.problems.push_back(printable_utf8(name, kMaxPrintableBytes) + ": " +
                                report.error().message);
      continue;
    }
    written = std::max(written.value_or(ShipTime{}), time_of(file));
    status.endpoints.push_back(std::move(*report));
  }
  if (written) status.written_at = utc_text_of(*written);
  if (!is_locked(directory)) return;
  const bool is_stale = written && now - *written > kMaxReportAge;
  status.life = is_stale ? ShipStatus::Life::kHangs : ShipStatus::Life::kRuns;
}

}  // namespace

Result<void> ShipStatusWriter::write(const std::vector<EndpointReport>& reports) {
  if (!fd_.valid()) {
    if (auto opened = open(); !opened) return opened.error();
  }
  for (const EndpointReport& report : reports) {
    auto written = replace(report.name + std::string(kReportSuffix), json_text(json_of(report)));
    if (written) continue;
    fd_.reset();
    lock_.reset();
    return written.error();
  }
  return {};
}

Result<void> ShipStatusWriter::open() {
  constexpr mode_t kDirectoryMode = 0755;
  if (::mkdir(directory_.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return fail_errno("could not make " + directory_);
  }
  UniqueFd fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    return fail_errno("could not open " + directory_);
  }
  // Another user could have other files of this one replaced and removed there.
  if (!is_of_known_user(status)) {
    return fail(ErrorCode::kPermissionDenied,
                "others than root and profd-ship may write to " + directory_,
                "give another --runtime-dir");
  }
  if (is_locked(fd.get())) {
    return fail(ErrorCode::kBusy, directory_ + " is in use by another profctl ship",
                "end that one, or give another --runtime-dir");
  }
  // Locked before others can open it, so that none of them has a lock of its own.
  const std::string next = std::string(kLockFile) + ".next";
  (void)::unlinkat(fd.get(), next.c_str(), 0);
  constexpr int kNewFile = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  UniqueFd file(::openat(fd.get(), next.c_str(), kNewFile, 0600));
  struct flock lock = whole_file_lock(F_WRLCK);
  if (!file.valid() || ::fcntl(file.get(), F_OFD_SETLK, &lock) != 0 ||
      ::fchmod(file.get(), 0644) != 0 ||
      ::renameat(fd.get(), next.c_str(), fd.get(), kLockFile) != 0) {
    return fail_errno("could not write to " + directory_);
  }
  fd_ = std::move(fd);
  lock_ = std::move(file);
  remove_reports();
  return {};
}

Result<void> ShipStatusWriter::replace(const std::string& name, const std::string& text) {
  const std::string next = name + ".next";
  (void)::unlinkat(fd_.get(), next.c_str(), 0);
  const UniqueFd file(
      ::openat(fd_.get(), next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.valid() || !write_all(file.get(), text + "\n") || ::fchmod(file.get(), 0644) != 0 ||
      ::renameat(fd_.get(), next.c_str(), fd_.get(), name.c_str()) != 0) {
    return fail_errno("could not write to " + directory_);
  }
  return {};
}

void ShipStatusWriter::remove_reports() const {
  for (const std::string& name : report_names(fd_.get())) {
    (void)::unlinkat(fd_.get(), name.c_str(), 0);
  }
}

bool is_ship_user(std::uint32_t uid, const std::string& passwd) {
  const auto text = read_whole_file(passwd, AT_FDCWD, kMaxPasswdBytes);
  if (!text) return false;
  const auto names = parse_user_names(*text);
  const auto known = names.find(uid);
  return known != names.end() && known->second == kOwner;
}

std::optional<ShipStatus> read_ship_status(const std::string& directory, ShipTime now) {
  ShipStatus status;
  const UniqueFd fd(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  struct stat file {};
  if (!fd.valid() || ::fstat(fd.get(), &file) != 0) {
    status.problems.push_back(fail_errno("could not open " + directory).message);
    return status;
  }
  if (!is_of_known_user(file)) {
    status.problems.push_back("others than root and profd-ship may write to " + directory);
    return status;
  }
  read_reports(fd.get(), status, now);
  const bool is_empty = status.endpoints.empty() && status.problems.empty();
  if (is_empty && status.life == ShipStatus::Life::kEnded) return std::nullopt;
  return status;
}

boost::json::value json_of(const ShipStatus& status, ShipTime now) {
  boost::json::array endpoints;
  endpoints.reserve(status.endpoints.size());
  for (const EndpointReport& report : status.endpoints) {
    boost::json::object one = json_of(report).as_object();
    const auto lag = lag_seconds(report, now);
    one.emplace("lag_seconds", lag ? boost::json::value(*lag) : boost::json::value(nullptr));
    one.emplace("failing", !report.failing_since.empty());
    endpoints.push_back(std::move(one));
  }
  boost::json::object object;
  object.emplace("running", status.life == ShipStatus::Life::kRuns);
  object.emplace("hangs", status.life == ShipStatus::Life::kHangs);
  object.emplace("written_at", boost::json::value(status.written_at));
  object.emplace("endpoints", std::move(endpoints));
  boost::json::array problems;
  problems.reserve(status.problems.size());
  for (const std::string& problem : status.problems)
    problems.push_back(boost::json::value(problem));
  object.emplace("problems", std::move(problems));
  return object;
}

}  // namespace profd
