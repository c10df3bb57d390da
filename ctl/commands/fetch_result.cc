#include "ctl/commands/fetch_result.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/client/signal_watch.h"
#include "ctl/output/directory.h"
#include "ctl/output/text.h"
#include "formats/jit/runtimes.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/xray/detach_reason.h"
#include "formats/xray/report.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummaryName = "session.json";

bool is_profile(const std::string& path) { return path.ends_with(".prof"); }

bool has_objects(const ResultInfo& result) {
  return std::ranges::any_of(result.files,
                             [](const ResultFile& file) { return !is_profile(file.path); });
}

// The directory as a profile's text may name it; "." where readers could not parse it.
std::string build_dir(const fs::path& directory) {
  const bool parsed = readers_can_parse_path(directory / "objects" / "x.so", false);
  return parsed ? directory.string() : ".";
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
    if (is_profile(file.path)) *bytes = with_build_dir(std::move(*bytes), objects);
    if (auto written = output.write(file.path, *bytes); !written) return written;
  }
  // Last: a directory with a session.json is whole.
  if (auto synced = output.sync(); !synced) return synced;
  if (auto written = output.write(kSummaryName, to_json(result.summary) + "\n"); !written) {
    return written;
  }
  return output.sync();
}

// PATH  SAMPLES, the profiles with most samples first; the path alone for what is no profile.
void print_files(const ResultInfo& result, const fs::path& directory, const Console& console) {
  std::vector<ProfileSummary> profiles = result.summary.profiles;
  std::ranges::stable_sort(profiles, std::ranges::greater(), &ProfileSummary::samples);
  for (const ProfileSummary& profile : profiles) {
    console.out << printable((directory / profile.path).string()) << "  " << profile.samples
                << (profile.samples == 1 ? " sample\n" : " samples\n");
  }
  for (const ResultFile& file : result.files) {
    const bool told =
        std::ranges::find(profiles, file.path, &ProfileSummary::path) != profiles.end();
    if (!told) console.out << printable((directory / file.path).string()) << "\n";
  }
  console.out << printable((directory / kSummaryName).string()) << "\n";
}

// A JVM writes its map when it is asked, and not again by itself.
bool was_asked(const JitNames& names) {
  return names.runtime == "Java" && names.file.ends_with(".map");
}

// What would give the names; empty: nothing does.
std::string_view remedy_of(const JitNames& names) {
  if (was_asked(names)) {
    return "it was made after Java was last asked: a longer session names more of it, and java "
           "-agentpath:libperf-jvmti.so all";
  }
  const Runtime* const runtime = runtime_of_name(names.runtime);
  return runtime == nullptr ? std::string_view() : runtime->remedy;
}

// Of code that runtimes made, by their names: whose samples mostly have names needs no word.
void tell_of_unnamed_code(const SessionSummary& summary, const Console& console) {
  constexpr std::uint64_t kFew = 10;                             // samples, or one of so many
  std::map<std::pair<std::string, bool>, JitNames> of_runtimes;  // apart: those that were asked
  for (const ProfileSummary& profile : summary.profiles) {
    if (!profile.jit) continue;
    add_later(*profile.jit, of_runtimes[{profile.jit->runtime, was_asked(*profile.jit)}]);
  }
  for (const auto& [key, names] : of_runtimes) {
    const std::string& name = names.runtime;
    const std::uint64_t unnamed = names.samples - std::min(names.named_samples, names.samples);
    if (names.samples < kFew || unnamed <= names.samples / kFew) continue;
    console.err << "profctl: " << unnamed << " of " << names.samples << " samples in code that "
                << (name.empty() ? "processes make at run time" : printable(name) + " makes")
                << " have no names\n";
    const std::string_view remedy = remedy_of(names);
    if (!remedy.empty()) console.err << "hint: " << remedy << "\n";
  }
}

// Of recorded calls: what was not as it should be, and why the app took part no more.
CountsByReason oddities_of(const SessionSummary& summary) {
  CountsByReason odd = summary.xray.value_or(CountsByReason());
  for (const char* plain : {"functions", "patched", "records", "entries", "exits", "tail_exits",
                            "arguments", "buffers", "threads"}) {
    odd.erase(plain);
  }
  return odd;
}

// The count of that name is taken out; 0: there is none.
std::uint64_t take_count(std::string_view name, CountsByReason& counts) {
  const auto found = counts.find(std::string(name));
  if (found == counts.end()) return 0;
  const std::uint64_t count = found->second;
  counts.erase(found);
  return count;
}

// In words; those of a newer daemon by their names.
void print_oddities(CountsByReason odd, const Console& console) {
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    const std::uint64_t count = take_count(xray::issue_name(issue), odd);
    if (count == 0) continue;
    console.err << "profctl: " << count << " " << xray::issue_text(issue, count) << "\n";
  }
  for (std::size_t i = 0; i < xray::kDetachReasons; ++i) {
    const auto end = static_cast<xray::DetachReason>(i);
    if (take_count(xray::name_of(end), odd) == 0) continue;
    console.err << "profctl: the app " << xray::text_of(end) << "\n";
  }
  if (!odd.empty()) console.err << "profctl: " << counts_text(odd) << " (docs/xray.md)\n";
}

void print_remarks(const SessionSummary& summary, const Console& console) {
  const bool is_sampled = !summary.xray.has_value();
  if (summary.ledger.taken == 0) {
    console.err << (is_sampled
                        ? "profctl: nothing was sampled: no process matched, or none used "
                          "the CPU\n"
                        : "profctl: nothing was recorded: none of the functions was called\n");
  }
  print_oddities(oddities_of(summary), console);
}

// A result that stays in the daemon goes by itself in time: worth a word, not a failure.
void let_go(Client& client, const ResultInfo& result, const Console& console) {
  const auto removed = client.remove(result.result);
  if (removed || removed.error().code == ErrorCode::kNotFound) return;
  console.err << "profctl: all files are written, but profd could not let go of its copy: "
              << printable(removed.error().message) << "\n";
}

}  // namespace

Result<void> fetch_result(Client& client, const ResultInfo& result, const fs::path& directory,
                          bool json, const Console& console) {
  std::vector<std::string> names{kSummaryName};
  for (const ResultFile& file : result.files) names.push_back(file.path);
  auto output = OutputDirectory::open(directory, names);
  if (!output) return output.error();
  if (auto written = write_files(client, result, *output); !written) return written;
  output->keep();
  let_go(client, result, console);
  if (json) {
    console.out << to_json(result.summary) << "\n";
  } else {
    print_files(result, directory, console);
  }
  print_remarks(result.summary, console);
  tell_of_unnamed_code(result.summary, console);
  if (has_objects(result) && build_dir(output->absolute()) == ".") {
    console.err << "hint: pprof can't parse the path " << printable(output->absolute().string())
                << ": run it inside that directory\n";
  }
  return {};
}

}  // namespace profd
