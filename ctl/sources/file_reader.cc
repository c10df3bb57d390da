#include "ctl/sources/file_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "collectors/host/find_file.h"
#include "collectors/sandbox/wire.h"
#include "ctl/sources/file_format.h"
#include "ctl/sources/folded_samples.h"
#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/sample_losses.h"
#include "ctl/sources/samples_wire.h"
#include "formats/api/session_summary.h"
#include "formats/base/errors.h"
#include "formats/base/whole_file.h"
#include "formats/jit/runtimes.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

using sandbox::Request;

enum class ReaderOperation : std::uint32_t {
  kReadProfile = 1,
  kReadSummary,
  kFindNames,
  kFindLineless,
  kReadTimes
};

constexpr sandbox::ChildLimits kReaderLimits{.memory_bytes = std::uint64_t{1} << 30,
                                             .answer_bytes = std::uint64_t{512} << 20,
                                             .cpu_time = std::chrono::seconds(30),
                                             .wall_time = std::chrono::seconds(60)};
constexpr std::size_t kMaxSummaryBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxAddressBytes = std::size_t{64} << 20;
constexpr std::int64_t kNsPerUs = 1000;

struct WireRecord {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> pcs{};
};
struct WireProfile {
  std::uint64_t period = 0;
  std::string build_dir{};
  std::vector<ProfileMapping> mappings{};
  std::vector<WireRecord> records{};
};
struct WireAddresses {
  std::vector<std::uint64_t> addresses{};
};
struct WireNames {
  std::vector<NamedAddress> names{};
};
struct WireLinelessFiles {
  std::vector<LinelessFile> files{};
};

WireProfile wire_of(const Profile& profile) {
  WireProfile wire{
      .period = profile.period, .build_dir = profile.build_dir, .mappings = profile.mappings};
  for (const Profile::Record& record : profile.records()) {
    const auto pcs = profile.pcs(record);
    wire.records.push_back({.count = record.count, .pcs = {pcs.begin(), pcs.end()}});
  }
  return wire;
}

Profile profile_of(WireProfile wire) {
  Profile profile;
  profile.period = wire.period;
  profile.build_dir = std::move(wire.build_dir);
  profile.mappings = std::move(wire.mappings);
  for (const WireRecord& record : wire.records) profile.add_record(record.pcs, record.count);
  return profile;
}

using NamedOrNot = std::variant<Samples, Profile>;

Result<std::string> read_bytes(int fd) {
  struct stat info {};
  const bool is_huge =
      ::fstat(fd, &info) == 0 && info.st_size > static_cast<off_t>(kMaxSourceBytes);
  if (is_huge) return too_large_file();
  Result<std::string> bytes = read_all(fd, "the file", kMaxSourceBytes + 1);
  if (bytes && bytes->size() > kMaxSourceBytes) return too_large_file();
  return bytes;
}

Result<NamedOrNot> read_profile(int fd, bool is_folded) {
  Result<std::string> bytes = read_bytes(fd);
  if (!bytes) return bytes.error();
  const auto format = format_of_file(*bytes, is_folded);
  if (!format) return format.error();
  if (*format == FileFormat::kGperftools) {
    auto profile = decode_gperftools(*bytes);
    if (!profile) return profile.error();
    return NamedOrNot(std::move(*profile));
  }
  if (*format == FileFormat::kFolded) {
    auto samples = samples_of_folded(*bytes);
    if (!samples) return samples.error();
    return NamedOrNot(std::move(*samples));
  }
  auto protobuf = unpack_pprof(*bytes);
  if (!protobuf) return error_of(protobuf.error());
  if (protobuf->empty()) return empty_file(true);
  bytes = std::string();  // it is as large as a fifth of the rest
  auto losses = find_losses(*protobuf);
  auto samples = samples_of_pprof(std::move(*protobuf));
  if (!samples) return samples.error();
  samples->losses = std::move(losses);
  return NamedOrNot(std::move(*samples));
}

std::int64_t limited_ns(double seconds) {
  constexpr double kNs = 1e9;
  constexpr double kMaxSeconds = 9e9;
  return seconds > 0 && seconds < kMaxSeconds ? std::llround(seconds * kNs) : 0;
}

// "2026-01-02T03:04:05Z" as nanoseconds since the epoch, 0 for any other text. libc's functions
// read files of time zones, which the sandboxed child may not.
std::int64_t start_ns_of(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const auto fits = [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form;
  };
  if (!std::ranges::equal(text, kForm, fits)) return 0;
  const auto number = [text](std::size_t at, std::size_t digits) {
    unsigned value = 0;
    for (const char c : text.substr(at, digits))
      value = value * 10 + static_cast<unsigned>(c - '0');
    return value;
  };
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(number(0, 4))),
                                         std::chrono::month(number(5, 2)),
                                         std::chrono::day(number(8, 2)));
  if (!date.ok()) return 0;
  const auto time = std::chrono::sys_days(date) + std::chrono::hours(number(11, 2)) +
                    std::chrono::minutes(number(14, 2)) + std::chrono::seconds(number(17, 2));
  const std::int64_t seconds = time.time_since_epoch().count();
  const bool is_known =
      seconds > 0 && seconds < std::numeric_limits<std::int64_t>::max() / kNsPerSecond;
  return is_known ? seconds * kNsPerSecond : 0;
}

// As the label of the process in a profile with names: what interpreted its code comes first.
std::string runtime_of(const ProfileSummary& profile) {
  if (profile.interpreted && !profile.interpreted->runtime.empty()) {
    const std::string_view with_version = profile.interpreted->runtime;
    return runtime_label(with_version.substr(0, with_version.find(' ')));
  }
  return profile.jit ? runtime_label(profile.jit->runtime) : std::string();
}

Result<DirectorySummary> read_directory_summary(int fd) {
  const auto bytes = read_all(fd, "session.json", kMaxSummaryBytes);
  if (!bytes) return bytes.error();
  const auto session = parse_session_summary(*bytes);
  if (!session) return session.error();
  DirectorySummary summary{.event = session->event, .duration_ns = limited_ns(session->seconds)};
  summary.start_ns = start_ns_of(session->started);
  summary.losses = losses_of(*session);
  if (session->period_unit == "microseconds" &&
      session->period_us <= std::numeric_limits<std::int64_t>::max() / kNsPerUs) {
    summary.period_ns = static_cast<std::int64_t>(session->period_us) * kNsPerUs;
  }
  for (const ProfileSummary& profile : session->profiles) {
    summary.profiles.push_back({.pid = profile.pid,
                                .comm = profile.comm,
                                .unit = profile.unit.value_or(""),
                                .container = profile.container.value_or(""),
                                .runtime = runtime_of(profile),
                                .path = profile.path});
  }
  return summary;
}

Result<std::vector<LinelessFile>> read_lineless_files(int fd) {
  const Result<std::string> bytes = read_bytes(fd);
  if (!bytes) return bytes.error();
  return find_lineless_files(*bytes);
}

Result<TimesFile> read_times_file(int fd) {
  const Result<std::string> bytes = read_bytes(fd);
  if (!bytes) return bytes.error();
  return decode_times_file(*bytes);
}

// The child's side.

Result<std::string> encoded_profile(int fd, bool is_folded) {
  const auto read = read_profile(fd, is_folded);
  if (!read) return read.error();
  if (const auto* const samples = std::get_if<Samples>(&*read)) {
    return "S" + encode_samples(*samples);
  }
  return "P" + sandbox::encode(wire_of(std::get<Profile>(*read)));
}

Result<std::string> encoded_names(const Request& request, const std::vector<UniqueFd>& files) {
  if (files.size() != 2) return fail(ErrorCode::kInternal, "unknown request");
  const auto bytes = sandbox::read_sealed(files[1].get(), kMaxAddressBytes);
  if (!bytes) return bytes.error();
  const auto argument = sandbox::decode<WireAddresses>(*bytes);
  if (!argument) return argument.error();
  auto names =
      find_mapped_names(files[0].get(), request.words[0], request.words[1], argument->addresses);
  if (!names) return names.error();
  return sandbox::encode(WireNames{std::move(*names)});
}

Result<std::string> answer_of_reader(const Request& request, const std::vector<UniqueFd>& files) {
  if (files.empty()) return fail(ErrorCode::kInternal, "unknown request");
  const int file = files.front().get();
  switch (static_cast<ReaderOperation>(request.operation)) {
    case ReaderOperation::kReadProfile:
      return encoded_profile(file, request.words[0] != 0);
    case ReaderOperation::kReadSummary: {
      const auto summary = read_directory_summary(file);
      if (!summary) return summary.error();
      return sandbox::encode(*summary);
    }
    case ReaderOperation::kFindNames:
      return encoded_names(request, files);
    case ReaderOperation::kFindLineless: {
      auto lineless = read_lineless_files(file);
      if (!lineless) return lineless.error();
      return sandbox::encode(WireLinelessFiles{std::move(*lineless)});
    }
    case ReaderOperation::kReadTimes: {
      const auto times = read_times_file(file);
      if (!times) return times.error();
      return encode_times_file(*times);
    }
  }
  return fail(ErrorCode::kInternal, "unknown request");
}

Request request_of(ReaderOperation operation, std::array<std::uint64_t, 2> words = {}) {
  return {.operation = static_cast<std::uint32_t>(operation), .reserved = 0, .words = words};
}

Result<NamedOrNot> decode_profile(std::string_view answer) {
  if (answer.starts_with('S')) {
    auto samples = decode_samples(answer.substr(1));
    if (!samples) return samples.error();
    return NamedOrNot(std::move(*samples));
  }
  if (!answer.starts_with('P')) return malformed("the answer of the sandboxed reader is malformed");
  auto profile = sandbox::decode<WireProfile>(answer.substr(1));
  if (!profile) return profile.error();
  return NamedOrNot(profile_of(std::move(*profile)));
}

}  // namespace

const sandbox::ChildKind kSourceReaderChild{
    .name = "source-reader", .process_name = "profctl-reader", .run = [](int socket) {
      sandbox::serve_requests(socket, answer_of_reader);
    }};

Result<SourceFile> SourceFile::open(const std::string& path) {
  // A profile of another user can name any file.
  auto fd = open_regular_file(path);
  if (!fd) return error_of_open(fd.error());
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return fail_errno("could not check " + path);
  return SourceFile(std::move(*fd), path, info.st_uid != ::geteuid() && info.st_uid != 0);
}

Result<NamedOrNot> FileReader::read(const SourceFile& file) {
  const bool is_folded = file.path().ends_with(".folded");
  Result<NamedOrNot> read = fail(ErrorCode::kInternal, "not read");
  if (file.is_of_another_user()) {
    const int fd = file.fd();
    const auto answer =
        ask(request_of(ReaderOperation::kReadProfile, {is_folded ? 1U : 0U, 0}), {&fd, 1});
    read = answer ? decode_profile(*answer) : Result<NamedOrNot>(answer.error());
  } else {
    read = read_profile(file.fd(), is_folded);
  }
  if (!read) return error_of_file(file.path(), read.error());
  return read;
}

Result<DirectorySummary> FileReader::read_summary(const SourceFile& file) {
  if (!file.is_of_another_user()) {
    auto summary = read_directory_summary(file.fd());
    if (!summary) return error_of_file(file.path(), summary.error());
    return summary;
  }
  const int fd = file.fd();
  const auto answer = ask(request_of(ReaderOperation::kReadSummary), {&fd, 1});
  if (!answer) return error_of_file(file.path(), answer.error());
  auto summary = sandbox::decode<DirectorySummary>(*answer);
  if (summary && (summary->duration_ns < 0 || summary->start_ns < 0 || summary->period_ns < 0)) {
    return malformed("the answer of the sandboxed reader is malformed");
  }
  return summary;
}

Result<std::vector<NamedAddress>> FileReader::find_names(const SourceFile& file,
                                                         const ProfileMapping& mapping,
                                                         std::span<const std::uint64_t> addresses) {
  if (!file.is_of_another_user()) {
    return find_mapped_names(file.fd(), mapping.start, mapping.file_offset, addresses);
  }
  const auto argument =
      sandbox::make_sealed(sandbox::encode(WireAddresses{{addresses.begin(), addresses.end()}}));
  if (!argument) return argument.error();
  const std::array files{file.fd(), argument->get()};
  const auto answer =
      ask(request_of(ReaderOperation::kFindNames, {mapping.start, mapping.file_offset}), files);
  if (!answer) return answer.error();
  auto found = sandbox::decode<WireNames>(*answer);
  if (!found) return found.error();
  return std::move(found->names);
}

Result<TimesFile> FileReader::read_times(const SourceFile& file) {
  Result<TimesFile> times = fail(ErrorCode::kInternal, "not read");
  if (file.is_of_another_user()) {
    const int fd = file.fd();
    const auto answer = ask(request_of(ReaderOperation::kReadTimes), {&fd, 1});
    times = answer ? decode_times_file(*answer) : Result<TimesFile>(answer.error());
  } else {
    times = read_times_file(file.fd());
  }
  if (!times) return error_of_file(file.path(), times.error());
  return times;
}

Result<std::vector<LinelessFile>> FileReader::find_lineless(const SourceFile& file) {
  if (!file.is_of_another_user()) {
    auto found = read_lineless_files(file.fd());
    if (!found) return error_of_file(file.path(), found.error());
    return found;
  }
  const int fd = file.fd();
  const auto answer = ask(request_of(ReaderOperation::kFindLineless), {&fd, 1});
  if (!answer) return error_of_file(file.path(), answer.error());
  auto found = sandbox::decode<WireLinelessFiles>(*answer);
  if (!found) return found.error();
  // A build id is the name of a file, too.
  if (!std::ranges::all_of(found->files, is_build_id, &LinelessFile::build_id)) {
    return malformed("the answer of the sandboxed reader is malformed");
  }
  return std::move(found->files);
}

Result<std::string> FileReader::ask(const Request& request, std::span<const int> files) {
  if (child_ == nullptr) {
    auto spawn = spawn_;
    if (!spawn) spawn = [](int socket) { return sandbox::spawn_child(kSourceReaderChild, socket); };
    auto child = sandbox::Client::start(std::string(kSourceReaderChild.name), kReaderLimits,
                                        std::move(spawn));
    if (!child) return child.error();
    child_ = std::move(*child);
  }
  return child_->call(request, files);
}

}  // namespace profd
