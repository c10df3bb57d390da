#include "daemon/history/window_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstdio>
#include <set>
#include <utility>

#include "daemon/storage/file_io.h"
#include "formats/base/cursor.h"
#include "formats/base/errors.h"
#include "formats/base/gzip.h"
#include "formats/base/json_members.h"
#include "formats/base/whole_file.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

using std::chrono::system_clock;

// Of a window of 0.6 MB, 10 takes 0.07 s of CPU time and 6 takes 0.01 s; it is 3 to 4 % smaller. 11
// takes 1.7 times that for 0.4 %. A larger file would take too much, and a smaller one does not
// matter.
constexpr int kWindowGzipLevel = 6;
constexpr int kBusyWindowGzipLevel = 10;
constexpr std::size_t kMinBusyBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxBusyBytes = std::size_t{1} << 20;
constexpr std::string_view kHeadId = "PW";
constexpr std::size_t kReadForHead = 512;  // enough for a window's
constexpr std::size_t kMaxUsersOfFile = 64;

struct OwnData {
  SessionSummary session;
  WindowRecord window;
};

Result<void> read_json(const boost::json::value& value, OwnData& out) {
  return JsonReader(value).required("session", out.session).required("window", out.window).finish();
}

std::string own_data_of(const SessionSummary& summary, const WindowRecord& record) {
  return R"({"session":)" + to_json(summary) + R"(,"window":)" + to_json(record) + "}";
}

template <std::unsigned_integral T>
void append_number(std::string& bytes, T number) {
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i) & 0xffU));
  }
}

std::uint64_t nanoseconds_of(system_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

// Far more than a window or an hour takes. A file of which the clock or a foreign writer says more
// would be in every range.
constexpr auto kMaxFileTime = std::chrono::days(366);
// 2200: ten times a span of kMaxFileTime, added to it, does not overflow.
constexpr auto kMaxFileEnd = std::chrono::sys_days(std::chrono::year(2200) / 1 / 1);

bool is_time_of_file(system_clock::time_point start, system_clock::time_point end) {
  return start >= system_clock::time_point() && end >= start && end <= kMaxFileEnd &&
         end - start <= kMaxFileTime;
}

system_clock::time_point time_at(std::uint64_t nanoseconds) {
  return system_clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds)));
}

// A count of users, their entries, and the names of windows, each with a space after it.
std::string text_of_parts(const WindowParts& parts) {
  std::string text;
  append_number(text, static_cast<std::uint32_t>(parts.users.size()));
  for (const UserBytes& user : parts.users) {
    append_number(text, user.uid);
    append_number(text, user.bytes);
  }
  for (const std::string& window : parts.windows) text += window + ' ';
  return text;
}

bool read_parts(Cursor& cursor, WindowParts& parts) {
  const auto users = cursor.read<std::uint32_t>();
  if (!cursor.ok() || users > kMaxUsersOfFile) return false;
  for (std::uint32_t i = 0; i < users; ++i) {
    const auto uid = cursor.read<std::uint32_t>();
    parts.users.push_back({.uid = uid, .bytes = cursor.read<std::uint64_t>()});
  }
  std::string_view names = cursor.read_bytes(cursor.remaining());
  for (std::size_t end = 0; !names.empty(); names.remove_prefix(end + 1)) {
    end = names.find(' ');
    if (end == std::string_view::npos || !is_window_name(names.substr(0, end))) return false;
    parts.windows.emplace_back(names.substr(0, end));
  }
  return cursor.ok();
}

Result<WindowHead> head_of(std::string_view head) {
  const auto data = find_gzip_field(head, kHeadId);
  if (!data) return malformed("not the file of a window");
  Cursor cursor(*data);
  const system_clock::time_point start = time_at(cursor.read<std::uint64_t>());
  const system_clock::time_point end = time_at(cursor.read<std::uint64_t>());
  WindowHead read{.start = start, .end = end, .file_bytes = cursor.read<std::uint64_t>()};
  if (!cursor.ok()) return malformed("the header of the window's file is cut");
  if (!is_time_of_file(start, end)) return malformed("the times of the file are out of range");
  if (!read_parts(cursor, read.parts)) return malformed("the header of the file is malformed");
  return read;
}

// A file of exactly the size that its header states.
Result<WindowHead> checked_head(std::string_view head, std::uint64_t file_bytes) {
  Result<WindowHead> found = head_of(head);
  if (found && found->file_bytes != file_bytes) {
    return malformed("the file has " + std::to_string(file_bytes) + " bytes instead of " +
                     std::to_string(found->file_bytes));
  }
  return found;
}

Result<UniqueFd> open_window(const std::string& directory, const std::string& name) {
  if (!is_window_name(name)) return fail(ErrorCode::kNotFound, "no window is called " + name);
  const std::string path = directory + "/" + name + std::string(kWindowFileEnd);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    return fail_errno("could not open window " + name);
  }
  if (!S_ISREG(status.st_mode)) return malformed("window " + name + " is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxWindowFileBytes) {
    return malformed("window " + name + " is too large");
  }
  return fd;
}

// The first bytes of a file.
Result<std::string> read_start(int fd, std::size_t bytes, const std::string& name) {
  std::string start(bytes, '\0');
  const ssize_t got = ::pread(fd, start.data(), start.size(), 0);
  if (got < 0) return fail_errno("could not read " + name);
  start.resize(static_cast<std::size_t>(got));
  return start;
}

bool have_own_labels(const WindowRecord& record) {
  std::set<ProcessLabels> seen;
  return std::ranges::all_of(record.profiles, [&seen](const WindowProfile& profile) {
    return seen.insert(profile.labels).second;
  });
}

// A file that is not complete yet. Removes it unless it was renamed.
class UnfinishedFile {
 public:
  UnfinishedFile(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile() {
    if (!name_.empty()) (void)::unlinkat(directory_, name_.c_str(), 0);
  }

  Result<void> write(std::string_view bytes) {
    constexpr mode_t kMode = 0600;
    const UniqueFd file(::openat(directory_, name_.c_str(),
                                 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kMode));
    if (!file.valid()) return failed("could not create " + name_);
    if (Result<void> written = write_all(file.get(), bytes, name_); !written) {
      error_number_ = errno;
      return written;
    }
    return ::fsync(file.get()) == 0 ? Result<void>() : failed("could not write " + name_);
  }

  Result<void> rename_to(const std::string& name) {
    if (::renameat2(directory_, name_.c_str(), directory_, name.c_str(), RENAME_NOREPLACE) != 0) {
      if (errno == EEXIST) return fail(ErrorCode::kBusy, "window " + name + " exists already");
      return failed("could not rename " + name_);
    }
    name_ = name;
    if (::fsync(directory_) != 0) return failed("could not sync the directory of windows");
    name_.clear();
    return {};
  }

  // Of the call that failed; 0: none.
  [[nodiscard]] int error_number() const { return error_number_; }

 private:
  Error failed(const std::string& what) {
    error_number_ = errno;
    return fail_errno(what, error_number_);
  }

  int directory_;
  int error_number_ = 0;
  std::string name_;  // empty: complete
};

}  // namespace

std::string encode_window(PprofProfile profile, const SessionSummary& summary,
                          const WindowRecord& record, WindowParts parts) {
  return encode_window_of(profile, summary, record, std::move(parts));
}

std::string encode_window_of(PprofProfile& profile, const SessionSummary& summary,
                             const WindowRecord& record, WindowParts parts) {
  profile.own_data = own_data_of(summary, record);
  const std::string protobuf = encode_pprof(profile);
  const bool is_busy = protobuf.size() >= kMinBusyBytes && protobuf.size() <= kMaxBusyBytes;
  std::string file = pack_gzip(protobuf, is_busy ? kBusyWindowGzipLevel : kWindowGzipLevel);
  for (UserBytes& user : parts.users) {
    user.bytes = std::min<std::uint64_t>(user.bytes, protobuf.size()) * file.size() /
                 std::max<std::uint64_t>(protobuf.size(), 1);
  }
  std::string head;
  append_number(head, nanoseconds_of(record.start));
  append_number(head, nanoseconds_of(record.end));
  const std::string parts_text = text_of_parts(parts);
  const std::size_t head_bytes = head.size() + sizeof(std::uint64_t) + parts_text.size();
  append_number(head, std::uint64_t{file.size() + kGzipFieldBytes + head_bytes});
  return add_gzip_field(std::move(file), kHeadId, head + parts_text);
}

Result<void> write_window(const std::string& directory, const std::string& name,
                          std::string_view bytes, int* error_number) {
  const UniqueFd parent = open_directory(AT_FDCWD, directory);
  if (!parent.valid()) return fail_errno("could not open " + directory);
  UnfinishedFile file(parent.get(), ".partial-" + name);
  Result<void> written = file.write(bytes);
  if (written) written = file.rename_to(name + std::string(kWindowFileEnd));
  if (error_number != nullptr) *error_number = file.error_number();
  return written;
}

Result<WindowHead> read_window_head(const std::string& directory, const std::string& name) {
  const Result<UniqueFd> fd = open_window(directory, name);
  if (!fd) return fd.error();
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return fail_errno("could not read " + name);
  Result<std::string> head = read_start(fd->get(), kReadForHead, name);
  if (!head) return head.error();
  const std::size_t fields_end = end_of_gzip_fields(*head);
  if (fields_end > kReadForHead) head = read_start(fd->get(), fields_end, name);
  if (!head) return head.error();
  return checked_head(*head, static_cast<std::uint64_t>(status.st_size));
}

Result<WindowHead> decode_window_head(std::string_view bytes) {
  return checked_head(bytes, bytes.size());
}

Result<std::string> read_window_bytes(const std::string& directory, const std::string& name) {
  const Result<UniqueFd> fd = open_window(directory, name);
  if (!fd) return fd.error();
  return read_all(fd->get(), name);
}

Result<WindowFile> WindowFile::open(const std::string& directory, const std::string& name) {
  const Result<std::string> bytes = read_window_bytes(directory, name);
  return bytes ? decode(*bytes) : Result<WindowFile>(bytes.error());
}

Result<WindowFile> WindowFile::decode(std::string_view bytes, std::uint64_t max_unpacked_bytes) {
  if (const auto head = decode_window_head(bytes); !head) return head.error();
  WindowFile file;
  PprofResult<std::string> protobuf = unpack_pprof(bytes, max_unpacked_bytes);
  if (!protobuf) return error_of(protobuf.error());
  file.protobuf_ = std::move(*protobuf);
  const PprofResult<std::string_view> own = find_own_data(file.protobuf_);
  if (!own) return error_of(own.error());
  Result<OwnData> data = parse_as<OwnData>(*own, kMaxJsonDepth);
  if (!data) return malformed("the window's own data is malformed: " + data.error().message);
  if (data->session.profiles.size() != data->window.profiles.size() ||
      !have_own_labels(data->window)) {
    return malformed("the window's lists of processes do not fit together");
  }
  if (!is_time_of_file(data->window.start, data->window.end)) {
    return malformed("the window's own times are out of range");
  }
  file.summary_ = std::move(data->session);
  file.record_ = std::move(data->window);
  return file;
}

Result<PprofTables> WindowFile::tables() const {
  PprofResult<PprofTables> tables = read_pprof_tables(protobuf_);
  if (!tables) return error_of(tables.error());
  return std::move(*tables);
}

}  // namespace profd
