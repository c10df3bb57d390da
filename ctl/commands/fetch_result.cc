#include "ctl/commands/fetch_result.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/block_texts.h"
#include "ctl/commands/hottest.h"
#include "ctl/output/directory.h"
#include "ctl/output/file.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"
#include "formats/jit/runtimes.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_split.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/stack_texts.h"
#include "formats/xray/detach_reason.h"
#include "formats/xray/report.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummaryName = "session.json";

bool is_profile(const ResultFile& file) { return file.path.ends_with(".prof"); }

// The directory as the text of a profile names it: "." if pprof can't parse its path.
std::string build_dir(const fs::path& directory) {
  return readers_can_parse_path(directory / "objects" / "x.so", false) ? directory.string() : ".";
}

Result<void> write_files(Client& client, const ResultInfo& result, OutputDirectory& output) {
  const std::string objects = build_dir(output.absolute());
  SignalWatch signals({SIGINT, SIGTERM, SIGHUP});
  for (const ResultFile& file : result.files) {
    if (signals.wait(std::chrono::milliseconds(0))) {
      return fail(ErrorCode::kIo, "interrupted by a signal", kKept);
    }
    auto bytes = client.fetch(result.result, file);
    if (!bytes) return bytes.error();
    if (is_profile(file)) *bytes = with_build_dir(std::move(*bytes), objects);
    if (auto written = output.write(file.path, *bytes); !written) return written;
  }
  // session.json is written last: a directory that has one is complete.
  if (auto synced = output.sync(); !synced) return synced;
  if (auto written = output.write(kSummaryName, to_json(result.summary) + "\n"); !written) {
    return written;
  }
  return output.sync();
}

std::string line_of_file(const fs::path& file) { return printable(file.string()); }

// "PATH  SAMPLES", or the time of blocks
std::string line_of_file(const fs::path& file, TimeKind kind, std::uint64_t written) {
  return line_of_file(file) + "  " + written_text(kind, written);
}

// A host has hundreds of processes, so the list of their files ends early.
void print_lines(const std::vector<std::string>& lines, const Destination& destination,
                 const WrittenList& written, const Console& console) {
  const fs::path directory = destination.path;
  if (written.is_quiet) {
    if (destination.is_by_default) console.out << line_of_file(directory) << "\n";
    return;
  }
  const std::size_t shown = written.has_all ? lines.size() : std::min(lines.size(), kShownRows);
  for (const std::string& line : std::span(lines).first(shown)) console.out << line << "\n";
  if (shown == lines.size()) return;
  say_not_shown(std::to_string(lines.size() - shown) + " more",
                written.all_option + "; all are in " + printable(directory.string()), console);
}

// The profile with the most samples first, then the files that are no profiles.
void print_files(const ResultInfo& result, const Destination& destination,
                 const WrittenList& written, const Console& console) {
  const fs::path directory = destination.path;
  const TimeKind kind = time_kind_of_event(result.summary.event);
  std::vector<ProfileSummary> profiles = result.summary.profiles;
  std::ranges::stable_sort(profiles, std::ranges::greater(), &ProfileSummary::samples);
  std::vector<std::string> lines;
  lines.reserve(result.files.size() + 1);
  std::set<std::string> listed;
  for (const ProfileSummary& profile : profiles) {
    lines.push_back(line_of_file(directory / profile.path, kind, profile.samples));
    listed.insert(profile.path);
  }
  for (const ResultFile& file : result.files) {
    if (!listed.contains(file.path)) lines.push_back(line_of_file(directory / file.path));
  }
  lines.push_back(line_of_file(directory / kSummaryName));
  print_lines(lines, destination, written, console);
}

// A JVM writes a perf map only when --ask-runtime asks for it.
bool has_map_of_asked_jvm(const JitNames& names) {
  return names.runtime == "Java" && names.file.ends_with(".map");
}

// What gives the code of the runtime symbols. Empty: nothing does.
std::string_view remedy_of(const JitNames& names) {
  if (has_map_of_asked_jvm(names)) {
    return "the JVM compiled this code after it was last asked; a longer session asks it later, "
           "and java -agentpath:libperf-jvmti.so announces all code at once";
  }
  const Runtime* const runtime = runtime_of_name(names.runtime);
  return runtime == nullptr ? std::string_view() : runtime->remedy;
}

// Remarks on fewer samples than these would be chance.
constexpr std::uint64_t kMinSamples = 10;

// Prints the share of user stacks that are cut, unless it is at most a tenth.
void print_cut_stacks(const SessionSummary& summary, const Console& console) {
  std::uint64_t all = 0;
  std::uint64_t cut = 0;
  CountsByReason reasons;
  for (const ProfileSummary& profile : summary.profiles) {
    all += profile.user_samples;
    for (const auto& [reason, count] : profile.incomplete) {
      cut += count;
      reasons[reason] += count;
    }
  }
  if (all < kMinSamples || cut <= all / 10) return;
  console.err << "profctl: " << cut << " of " << all
              << " user stacks do not reach the entry function: " << counts_text(reasons)
              << " (docs/api.md)\n";
}

// Prints the share of JIT samples without a symbol by runtime, unless it is at most a tenth.
void print_unnamed_code(const SessionSummary& summary, const Console& console) {
  // JVMs that were asked are apart: their remedy differs.
  std::map<std::pair<std::string, bool>, JitNames> runtimes;
  for (const ProfileSummary& profile : summary.profiles) {
    if (!profile.jit) continue;
    add_later(*profile.jit, runtimes[{profile.jit->runtime, has_map_of_asked_jvm(*profile.jit)}]);
  }
  for (const auto& [key, names] : runtimes) {
    const std::uint64_t unnamed = names.samples - std::min(names.named_samples, names.samples);
    if (names.samples < kMinSamples || unnamed <= names.samples / 10) continue;
    const std::string runtime = names.runtime.empty() ? "unknown runtime" : names.runtime;
    console.err << "profctl: " << unnamed << " of " << names.samples << " JIT samples ("
                << printable(runtime) << ") have no symbols\n";
    const std::string_view remedy = remedy_of(names);
    if (!remedy.empty()) console.err << "hint: " << remedy << "\n";
  }
}

// Prints the share of samples in interpreted code without all names, unless it is at most a tenth.
void print_unnamed_interpreted(const SessionSummary& summary, const Console& console) {
  std::map<std::string, InterpretedNames> runtimes;
  for (const ProfileSummary& profile : summary.profiles) {
    const auto& names = profile.interpreted;
    if (names) add_later(*names, runtimes[names->runtime]);
  }
  for (const auto& [runtime, names] : runtimes) {
    const std::uint64_t unnamed = names.samples - std::min(names.named_samples, names.samples);
    if (names.samples < kMinSamples || unnamed <= names.samples / 10) continue;
    console.err << "profctl: " << unnamed << " of " << names.samples << " samples of "
                << (runtime.empty() ? "interpreted code" : printable(runtime))
                << " have functions without a name\nhint: 'profctl status' counts why their code "
                   "was not announced (docs/python.md)\n";
  }
}

// Prints which programs have an interpreter whose functions have no names at all.
void print_refused_interpreters(const SessionSummary& summary, const Console& console) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> samples;
  for (const ProfileSummary& profile : summary.profiles) {
    const auto& names = profile.interpreted;
    const bool is_refused = names && names->samples == 0 && !names->refused.empty();
    if (is_refused) samples[{names->runtime, names->refused}] += profile.user_samples;
  }
  for (const auto& [interpreter, count] : samples) {
    if (count < kMinSamples) continue;
    console.err << "profctl: the functions of " << printable(interpreter.first)
                << " have no names in " << count << " samples: " << printable(interpreter.second)
                << "\nhint: 'profctl doctor --pid PID' says what can be done (docs/python.md)\n";
  }
}

// Removes the count of that name and returns it; 0 if there is none.
std::uint64_t take_count(std::string_view name, CountsByReason& counts) {
  const auto count = counts.extract(std::string(name));
  return count.empty() ? 0 : count.mapped();
}

// Prints which calls are missing or inexact in a recording of XRay, and why the app stopped to take
// part. A reason of a newer daemon is printed by its name.
void print_xray_issues(CountsByReason counts, const Console& console) {
  for (const char* no_issue : {"functions", "patched", "records", "entries", "exits", "tail_exits",
                               "arguments", "buffers", "threads"}) {
    counts.erase(no_issue);
  }
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    const std::uint64_t count = take_count(xray::issue_name(issue), counts);
    if (count == 0) continue;
    console.err << "profctl: " << count << " " << xray::issue_text(issue, count) << "\n";
  }
  for (std::size_t i = 0; i < xray::kDetachReasons; ++i) {
    const auto reason = static_cast<xray::DetachReason>(i);
    if (take_count(xray::name_of(reason), counts) == 0) continue;
    console.err << "profctl: the app " << xray::text_of(reason) << "\n";
  }
  if (!counts.empty()) console.err << "profctl: " << counts_text(counts) << " (docs/xray.md)\n";
}

std::string no_samples_text(const SessionSummary& summary) {
  if (summary.xray) return "no calls were recorded: none of the functions was called";
  const TimeKind kind = time_kind_of_event(summary.event);
  if (is_of_blocks(kind)) return no_blocks_text(kind);
  for (const char* clock : {"cpu", "cpu-clock", "task-clock"}) {
    if (summary.event == clock) return "no samples: no process of the target used the CPU";
  }
  return "no " + printable(summary.event) +
         " were sampled: none occurred in the target, or too few; --period 1 takes each of them";
}

void print_losses(const SessionSummary& summary, const Console& console) {
  const SessionLedger& ledger = summary.ledger;
  const std::uint64_t lost = sum_of(ledger.lost);
  if (lost == 0) return;
  const TimeKind kind = time_kind_of_event(summary.event);
  console.err << "profctl: " << lost_text(kind, lost, ledger.taken)
              << " were lost: " << printable(reasons_text(kind, ledger.lost)) << "\n";
}

void print_remarks(const SessionSummary& summary, const Console& console) {
  if (summary.ledger.taken == 0) console.err << "profctl: " << no_samples_text(summary) << "\n";
  print_losses(summary, console);
  if (summary.xray) print_xray_issues(*summary.xray, console);
  print_block_remarks(summary, console);
  print_cut_stacks(summary, console);
  print_unnamed_code(summary, console);
  print_unnamed_interpreted(summary, console);
  print_refused_interpreters(summary, console);
}

// The daemon deletes a result after a time anyway, so a failure here is no failure of the command.
void delete_copy_of_daemon(Client& client, const ResultInfo& result, const Console& console) {
  const auto removed = client.remove(result.result);
  if (removed || removed.error().code == ErrorCode::kNotFound) return;
  console.err << "profctl: all files are written, but profd could not delete its copy: "
              << printable(removed.error().message) << "\n";
}

Result<int> fetch_directory(Client& client, const ResultInfo& result,
                            const Destination& destination, const WrittenList& written,
                            const Console& console) {
  const std::string& shown = destination.path;
  std::vector<std::string> names{kSummaryName};
  for (const ResultFile& file : result.files) names.push_back(file.path);
  auto output = OutputDirectory::open(shown, names);
  if (!output) return output.error();
  if (auto done = write_files(client, result, *output); !done) return done.error();
  output->keep();
  // For the functions that are shown at the end; the directory is written without it.
  const auto packed = result.named_profile && !console.json && !written.is_quiet
                          ? client.fetch(result.result, *result.named_profile)
                          : Result<std::string>(std::string());
  delete_copy_of_daemon(client, result, console);
  if (console.json) {
    console.out << to_json(result.summary) << "\n";
  } else {
    print_files(result, destination, written, console);
  }
  print_remarks(result.summary, console);
  const bool has_objects = !std::ranges::all_of(result.files, is_profile);
  if (has_objects && build_dir(output->absolute()) == ".") {
    console.err << "hint: pprof can't parse the path " << printable(output->absolute().string())
                << "; run pprof inside that directory\n";
  }
  if (packed) print_hottest(*packed, shown, console);
  return kExitOk;
}

std::string encoded(const PprofProfile& profile, ResultForm form, const std::string& name) {
  if (form == ResultForm::kPprof) return encode_pprof_gzip(profile);
  return form == ResultForm::kFolded ? folded_stacks(profile) : speedscope_json(profile, name);
}

Result<std::string> converted(std::string packed, ResultForm form, const std::string& name) {
  if (form == ResultForm::kPprof) return packed;
  const auto profile = decode_pprof(packed);
  if (!profile) return error_of(profile.error());
  return encoded(*profile, form, name);
}

Result<std::string> fetch_named_profile(Client& client, const ResultInfo& result) {
  if (result.named_profile) return client.fetch(result.result, *result.named_profile);
  return fail(ErrorCode::kUnsupported, "this result has no profile with names",
              "write a directory: -o DIR");
}

// Of a file that may go into a directory that is absent.
fs::path parent_of(const std::string& file) {
  std::error_code error;
  return fs::absolute(file, error).parent_path();
}

Result<void> make_parent(const std::string& file) {
  if (file == "-") return {};
  std::error_code error;
  fs::create_directories(parent_of(file), error);
  if (!error) return {};
  return of_own_file(fail_errno("could not make " + parent_of(file).string(), error.value()));
}

Result<void> write_file(const std::string& packed, const std::string& session,
                        const Destination& destination) {
  const auto bytes = converted(packed, destination.form, session);
  if (!bytes) return bytes.error();
  if (auto made = make_parent(destination.path); !made) return made;
  auto file = OutputFile::open(destination.path, ExistingFile::kRefused);
  if (!file) return file.error();
  file->write(*bytes);
  return file->commit();
}

struct PartFile {
  std::string path;
  std::string bytes;
  std::int64_t written = 0;  // samples; of blocks, microseconds
};

// A unit or process can have any name. Parts whose names differ only in other characters get a
// number.
std::string part_path(const std::string& name, const std::string& extension,
                      std::set<std::string>& taken) {
  constexpr std::size_t kNameBytes = 100;
  constexpr std::string_view kKept = "._+-@";
  std::string stem = name.substr(0, kNameBytes);
  std::ranges::replace_if(
      stem,
      [&](char c) {
        const bool is_plain =
            (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        return !is_plain && kKept.find(c) == kKept.npos;
      },
      '_');
  if (stem.empty() || stem.front() == '.' || stem.front() == '-') stem.insert(0, 1, '_');
  std::string path = stem + extension;
  for (int number = 2; !taken.insert(path).second; ++number) {
    path = stem;
    path.append("-").append(std::to_string(number)).append(extension);
  }
  return path;
}

// `has_times`: of blocks, each of which has a time of its own as its last value.
Result<std::vector<PartFile>> split_files(const std::string& packed, const Destination& destination,
                                          bool has_times) {
  constexpr std::int64_t kNsOfUs = 1000;
  const auto protobuf = unpack_pprof(packed);
  if (!protobuf) return error_of(protobuf.error());
  const auto tables = read_pprof_tables(*protobuf);
  if (!tables) return error_of(tables.error());
  std::vector<PartFile> files;
  std::set<std::string> taken;
  for (const PprofPart& part : split_pprof(*tables, *destination.by)) {
    PartFile file{.path = part_path(part.name, extension_of(destination.form), taken),
                  .bytes = encoded(part.profile, destination.form, part.name)};
    for (std::size_t i = 0; i < part.profile.samples().size(); ++i) {
      const auto values = part.profile.values(i);
      file.written = sum_within_limits(file.written, has_times ? values.back() : values.front());
    }
    if (has_times) file.written /= kNsOfUs;
    files.push_back(std::move(file));
  }
  std::ranges::stable_sort(files, std::ranges::greater(), &PartFile::written);
  return files;
}

std::vector<std::string> lines_of_parts(const std::vector<PartFile>& files, TimeKind kind,
                                        const fs::path& directory) {
  std::vector<std::string> lines;
  lines.reserve(files.size());
  for (const PartFile& file : files) {
    lines.push_back(
        line_of_file(directory / file.path, kind, static_cast<std::uint64_t>(file.written)));
  }
  return lines;
}

// Empty: `report` cannot read such a file.
std::string source_path(const std::string& file, const Destination& destination) {
  const bool is_source =
      destination.form == ResultForm::kPprof || destination.form == ResultForm::kFolded;
  return is_source && file != "-" ? file : std::string();
}

Result<int> fetch_parts(Client& client, const ResultInfo& result, const Destination& destination,
                        const WrittenList& written, const Console& console) {
  const std::string& shown = destination.path;
  const auto packed = fetch_named_profile(client, result);
  if (!packed) return packed.error();
  const TimeKind kind = time_kind_of_event(result.summary.event);
  const auto files = split_files(*packed, destination, is_of_blocks(kind));
  if (!files) return files.error();
  std::vector<std::string> names;
  for (const PartFile& file : *files) names.push_back(file.path);
  auto output = OutputDirectory::open(shown, names);
  if (!output) return output.error();
  for (const PartFile& file : *files) {
    if (auto done = output->write(file.path, file.bytes); !done) return done.error();
  }
  if (auto synced = output->sync(); !synced) return synced.error();
  output->keep();
  delete_copy_of_daemon(client, result, console);
  if (console.json) {
    console.out << to_json(result.summary) << "\n";
  } else {
    print_lines(lines_of_parts(*files, kind, shown), destination, written, console);
  }
  print_remarks(result.summary, console);
  if (written.is_quiet) return kExitOk;
  const std::string hottest = files->empty() ? "" : fs::path(shown) / files->front().path;
  print_hottest(*packed, source_path(hottest, destination), console);
  return kExitOk;
}

Result<int> fetch_file(Client& client, const ResultInfo& result, const Destination& destination,
                       const WrittenList& written, const Console& console) {
  const auto packed = fetch_named_profile(client, result);
  if (!packed) return packed.error();
  if (auto done = write_file(*packed, result.summary.session, destination); !done) {
    return done.error();
  }
  delete_copy_of_daemon(client, result, console);
  if (destination.path != "-" && console.json) {
    console.out << to_json(result.summary) << "\n";
  } else if (destination.path != "-" && !written.is_quiet) {
    console.out << line_of_file(destination.path, time_kind_of_event(result.summary.event),
                                result.summary.ledger.written)
                << "\n";
  }
  print_remarks(result.summary, console);
  if (written.is_quiet) return kExitOk;
  print_hottest(*packed, source_path(destination.path, destination), console);
  return kExitOk;
}

}  // namespace

void use_default_directory(const std::string& id, Destination& destination) {
  if (!destination.path.empty()) return;
  destination.path = "profd-" + id;
  destination.is_by_default = true;
}

Result<void> check_output(const Destination& destination) {
  if (destination.path.empty() || destination.path == "-") return {};
  if (!destination.is_file()) return OutputDirectory::check(destination.path);
  std::error_code error;
  const fs::path parent = parent_of(destination.path);
  if (!fs::exists(parent, error)) return OutputDirectory::check(parent);
  return OutputFile::check(destination.path, ExistingFile::kRefused);
}

Result<int> fetch_result(Client& client, const ResultInfo& result, const Destination& destination,
                         const WrittenList& written, const Console& console) {
  if (destination.is_file()) return fetch_file(client, result, destination, written, console);
  Destination directory = destination;
  use_default_directory(result.result, directory);
  return directory.by ? fetch_parts(client, result, directory, written, console)
                      : fetch_directory(client, result, directory, written, console);
}

}  // namespace profd
