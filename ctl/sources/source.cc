#include "ctl/sources/source.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <variant>

#include "collectors/host/find_file.h"
#include "ctl/sources/file_format.h"
#include "ctl/sources/file_reader.h"
#include "ctl/sources/gperftools_samples.h"
#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/profile_name.h"
#include "ctl/sources/sample_losses.h"
#include "ctl/sources/target_labels.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"
#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBuildDirectory = "$build/";
constexpr double kMsPerSecond = 1000;
constexpr double kMaxSeconds = 1e9;
constexpr const char* kSummaryFile = "session.json";
// Each may take the whole CPU time of a sandboxed reader, 30 s, and a session.json of 64 MiB lists
// 250,000 of them.
constexpr std::size_t kMaxUnreadOfOthers = 16;

std::string local_text_of_ms(std::uint64_t ms) {
  return local_time_text(WallTime(std::chrono::milliseconds(ms)));
}

// From the start of the first window to the end of the last one. None: the times are malformed.
std::optional<TimeRange> range_of(const SessionSummary& summary) {
  const auto started = parse_time_text(summary.started, WallTime{});
  const auto start = started ? started->time_since_epoch().count() : 0;
  if (start <= 0 || !(summary.seconds > 0) || !(summary.seconds < kMaxSeconds)) return std::nullopt;
  const auto since_ms = static_cast<std::uint64_t>(start);
  return TimeRange{
      .since_ms = since_ms,
      .until_ms = since_ms + static_cast<std::uint64_t>(summary.seconds * kMsPerSecond)};
}

// The error is of one file of a directory, so that the others can be shown. One of the reader's
// process is not: a directory of another user shall not cost its time for each file.
bool is_of_one_file(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kPermissionDenied ||
         code == ErrorCode::kInvalidArgument || code == ErrorCode::kMalformed ||
         code == ErrorCode::kIo;
}

// A profile that session.json lists, and that is not there.
Error error_of_listed(const Error& error) {
  if (error.code != ErrorCode::kNotFound || !error.hint.empty()) return error;
  return fail(error.code, error.message, "session.json lists it: copy the whole directory");
}

// What to write for a time that stands where a source is expected, which is no range.
std::string hint_of_absent_source(const std::string& name, bool has_range_options) {
  const TimeForm form = time_form_of(name);
  if (form == TimeForm::kNone) {
    return std::string("'profctl list' shows the sessions; ") +
           (has_range_options ? "the history is shown without a source: --last 10m"
                              : "a time of the history is 14:00..14:10");
  }
  const bool is_point = form == TimeForm::kPoint;
  const std::string range = quoted_time(name + (is_point ? ".." : " ago.."));
  if (!has_range_options) return "did you mean " + range + "? That is the time from then until now";
  return "did you mean " + std::string(is_point ? "--since " : "--last ") + quoted_time(name) +
         "? As a source, " + (is_point ? "the time from then is " : "that time is ") + range;
}

class SourceOpener {
 public:
  SourceOpener(Client& client, const SourceRequest& request, const sandbox::Spawn& spawn)
      : client_(client), request_(request), reader_(spawn) {}

  Result<Source> open() {
    if (request_.name.empty()) return open_history(request_.range);
    if (const auto found = find_file(request_.name)) {
      struct stat info {};
      const bool is_directory = ::fstat(found->get(), &info) == 0 && S_ISDIR(info.st_mode);
      return of_target(is_directory ? open_directory() : open_file());
    } else if (found.error().code == ErrorCode::kPermissionDenied && !is_valid_id(request_.name)) {
      return error_of_open(found.error());
    }
    if (is_range_name(request_.name)) {
      const auto range = parse_range_name(request_.name);
      return range ? open_history(*range) : Result<Source>(range.error());
    }
    if (is_valid_id(request_.name)) return of_target(open_session());
    return not_found();
  }

 private:
  [[nodiscard]] Error not_found() const {
    return fail(ErrorCode::kNotFound, "there is no file and no session '" + request_.name + "'",
                hint_of_absent_source(request_.name, request_.has_range_options));
  }

  // The daemon chooses the target of a history.
  Result<Source> of_target(Result<Source> source) {
    if (!source || request_.target.empty()) return source;
    if (auto chosen = keep_target(request_.target, source->samples); !chosen) {
      if (!is_allowed_absence(chosen.error())) return chosen.error();
      source->absence = chosen.error();
    }
    return source;
  }

  [[nodiscard]] bool is_allowed_absence(const Error& error) const {
    return request_.may_lack_target && !request_.target.empty() &&
           error.code == ErrorCode::kNotFound;
  }

  Result<Source> open_history(const TimeRange& range) {
    const ExportRequest wanted{
        .range = range, .target = request_.target, .profile_only = true, .event = request_.event};
    const auto result = client_.export_windows(wanted);
    if (result) return source_of_history(*result);
    return is_allowed_absence(result.error()) ? open_empty_history(range, result.error())
                                              : Result<Source>(result.error());
  }

  // The daemon gives nothing of a target that is not there, so the other processes say of what time
  // the windows are. If there are no windows, that is the error.
  Result<Source> open_empty_history(const TimeRange& range, const Error& absence) {
    const auto result = client_.export_windows(
        {.range = range, .target = {}, .profile_only = true, .event = request_.event});
    if (!result) return result.error();
    auto source = source_of_history(*result);
    if (!source) return source;
    source->samples.keep_labels(std::vector<bool>(source->samples.labels().size()));
    source->absence = absence;
    return source;
  }

  Result<Source> source_of_history(const ResultInfo& result) {
    auto source = fetch(result, "the history");
    if (!source || (source->windows = range_of(result.summary)) == std::nullopt) return source;
    source->title = "the history from " + local_text_of_ms(source->windows->since_ms) + " to " +
                    local_text_of_ms(source->windows->until_ms);
    return source;
  }

  Result<Source> open_session() {
    const auto result = client_.dump(request_.name);
    if (!result) {
      return result.error().code == ErrorCode::kNotFound ? not_found() : result.error();
    }
    return fetch(*result, "session " + request_.name);
  }

  // The named profile of a result, which the daemon does not need any more.
  Result<Source> fetch(const ResultInfo& result, const std::string& title) {
    Result<std::string> packed =
        result.named_profile
            ? client_.fetch(result.result, *result.named_profile)
            : Result<std::string>(fail(ErrorCode::kUnsupported, title + " has no names",
                                       "profctl export -o DIR writes it"));
    (void)client_.remove(result.result);
    if (!packed) return packed.error();
    auto protobuf = unpack_pprof(*packed);
    packed = std::string();
    if (!protobuf) return error_of(protobuf.error());
    auto samples = samples_of_pprof(std::move(*protobuf));
    if (!samples) return samples.error();
    samples->losses = losses_of(result.summary);
    Source source{.samples = std::move(*samples), .title = title, .summary = result.summary};
    if (result.note) source.notes.push_back(*result.note);
    return source;
  }

  Result<Source> open_file() {
    const auto file = SourceFile::open(request_.name);
    if (!file) return file.error();
    auto read = reader_.read(*file);
    if (!read) return read.error();
    if (auto* const samples = std::get_if<Samples>(&*read)) {
      return Source{.samples = std::move(*samples), .title = request_.name};
    }
    const Profile& profile = std::get<Profile>(*read);
    Source source{.samples = {}, .title = request_.name};
    source.samples.has_cpu_time = true;
    constexpr std::uint64_t kMaxPeriodUs = 1'000'000'000'000;
    const auto period_ns = static_cast<std::int64_t>(std::min(profile.period, kMaxPeriodUs)) * 1000;
    const fs::path path = request_.name;
    add(profile, period_ns, owner_of_profile_name(path.filename().string()), path.parent_path(),
        source);
    return source;
  }

  Result<Source> open_directory() {
    const fs::path directory = request_.name;
    const auto summary_file = SourceFile::open(directory / kSummaryFile);
    if (!summary_file) {
      if (summary_file.error().code != ErrorCode::kNotFound) return summary_file.error();
      return invalid_argument(
          request_.name + " has no session.json: it is no directory that profctl wrote",
          "name one of its files, or a directory of record, stop, dump or export");
    }
    const auto summary = reader_.read_summary(*summary_file);
    if (!summary) return error_of_summary(summary.error());
    Source source{.samples = {}, .title = request_.name};
    source.samples.event = summary->event;
    source.samples.duration_ns = summary->duration_ns;
    source.samples.time_ns = summary->start_ns;
    source.samples.has_cpu_time = summary->period_ns > 0;
    source.samples.time_kind = time_kind_of_event(summary->event);
    source.samples.has_counts = !is_of_blocks(source.samples.time_kind);
    source.samples.losses = summary->losses;
    if (auto added = add_profiles(directory, *summary, source); !added) return added.error();
    return source;
  }

  [[nodiscard]] Error error_of_summary(const Error& error) const {
    if (error.code != ErrorCode::kMalformed) return error;
    return fail(
        error.code, error.message,
        "its profiles can be shown one by one: profctl report " + request_.name + "/COMM.PID.prof");
  }

  // What cannot be read is left out, and a note says so, as long as something can be read.
  Result<void> add_profiles(const fs::path& directory, const DirectorySummary& summary,
                            Source& source) {
    std::optional<Error> first;
    std::size_t unread = 0;
    std::size_t read = 0;
    for (const DirectoryProfile& profile : summary.profiles) {
      if (!is_valid_result_path(profile.path)) continue;
      const auto added = add_profile(directory, summary, profile, source);
      if (!added && !is_of_one_file(added.error().code)) return added.error();
      if (!added && unread_of_others_ == kMaxUnreadOfOthers) return too_many_unread(added.error());
      if (!added && !first) first = added.error();
      ++(added ? read : unread);
    }
    if (!first) {
      add_times(directory, source);
      return {};
    }
    if (read == 0) return *first;
    // The times of the samples count those of all profiles.
    source.notes.push_back(
        std::to_string(unread) + " of " + std::to_string(read + unread) +
        " profiles could not be read, and their samples are missing: " + first->message);
    return {};
  }

  [[nodiscard]] Error too_many_unread(const Error& last) const {
    return fail(
        ErrorCode::kMalformed,
        std::to_string(unread_of_others_) + " profiles of another user in " + request_.name +
            " could not be read; the last: " + last.message,
        "the others can be shown one by one: profctl report " + request_.name + "/COMM.PID.prof");
  }

  void add_times(const fs::path& directory, Source& source) {
    const auto file = SourceFile::open(directory / kTimesFile);
    if (!file && file.error().code == ErrorCode::kNotFound) return;
    auto read = file ? reader_.read_times(*file) : Result<TimesFile>(file.error());
    if (read && source.samples.set_times(std::move(read->times))) {
      source.samples.time_ns = read->start_ns;
      return;
    }
    source.notes.push_back(
        "the times of its samples are not known: " +
        (read ? file->path() + " has those of other samples" : read.error().message));
  }

  Result<void> add_profile(const fs::path& directory, const DirectorySummary& summary,
                           const DirectoryProfile& of, Source& source) {
    const auto file = SourceFile::open(directory / of.path);
    if (!file) return error_of_listed(file.error());
    const auto profile = read_gperftools(*file);
    if (!profile) {
      if (file->is_of_another_user()) ++unread_of_others_;
      return profile.error();
    }
    add(*profile, summary.period_ns,
        {.pid = of.pid,
         .comm = of.comm,
         .unit = of.unit,
         .container = of.container,
         .runtime = of.runtime},
        directory, source);
    return {};
  }

  Result<Profile> read_gperftools(const SourceFile& file) {
    auto read = reader_.read(file);
    if (!read) return read.error();
    auto* const profile = std::get_if<Profile>(&*read);
    if (profile == nullptr) return malformed(file.path() + " is no gperftools profile");
    return std::move(*profile);
  }

  void add(const Profile& profile, std::int64_t period_ns, const ProfileOwner& owner,
           const fs::path& directory, Source& source) {
    const auto names = [&](const ProfileMapping& mapping,
                           std::span<const std::uint64_t> addresses) {
      return names_of(mapping, profile.build_dir, directory, addresses);
    };
    add_gperftools(profile, period_ns, owner, names, source.samples);
  }

  // None where the file is not there any more, or cannot be read.
  std::vector<NamedAddress> names_of(const ProfileMapping& mapping, const std::string& build_dir,
                                     const fs::path& directory,
                                     std::span<const std::uint64_t> addresses) {
    std::vector<fs::path> paths{mapping.path};
    if (mapping.path.starts_with(kBuildDirectory)) {
      const std::string below = mapping.path.substr(kBuildDirectory.size());
      paths = {directory / below, fs::path(build_dir) / below};  // it may have been moved
    }
    for (const fs::path& path : paths) {
      const auto file = SourceFile::open(path);
      if (!file) continue;
      auto names = reader_.find_names(*file, mapping, addresses);
      if (names) return std::move(*names);
    }
    return {};
  }

  Client& client_;
  const SourceRequest& request_;
  FileReader reader_;
  std::size_t unread_of_others_ = 0;  // profiles of a directory
};

}  // namespace

bool is_range_name(const std::string& name) {
  struct stat info {};
  return name.find("..") != std::string::npos && name.find('/') == std::string::npos &&
         ::stat(name.c_str(), &info) != 0;
}

Result<TimeRange> parse_range_name(const std::string& name) {
  const std::size_t dots = name.find("..");
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::string since = name.substr(0, dots);
  const std::string until = dots == std::string::npos ? "" : name.substr(dots + 2);
  const auto start = parse_time_text(since, now);
  if (!start) return start.error();
  TimeRange range{.since_ms = static_cast<std::uint64_t>(start->time_since_epoch().count())};
  if (!until.empty()) {
    const auto end = parse_time_text(until, now);
    if (!end) return end.error();
    range.until_ms = static_cast<std::uint64_t>(end->time_since_epoch().count());
  }
  if (range.since_ms < range.until_ms) return range;
  return invalid_argument("the time range '" + name + "' " + fault_of_range(range),
                          "give SINCE..UNTIL, for example 14:00..14:10");
}

Result<Source> open_source(Client& client, const SourceRequest& request,
                           const sandbox::Spawn& spawn) {
  return SourceOpener(client, request, spawn).open();
}

}  // namespace profd
