#include "ctl/commands/convert_traces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>
#include <utility>

#include <boost/json/object.hpp>

#include "collectors/host/find_file.h"
#include "ctl/commands/instrumented_code.h"
#include "ctl/output/file.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/base/seeded_hash.h"
#include "formats/base/unique_fd.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/xray/log.h"
#include "formats/xray/trace.h"

namespace profd {
namespace {

// How many calls the traces have, and what was missing or malformed in them.
struct ConvertReport {
  xray::Report counts;
  xray::Clock clock;
  std::uint64_t stacks = 0;
  std::uint64_t unknown_functions = 0;  // functions that no binary has
  std::string output;
};

Result<xray::ByteSource> open_log(const std::string& path) {
  auto opened = open_regular_file(path);
  if (!opened) {
    Error error = opened.error();
    if (error.code == ErrorCode::kNotFound) {
      error.hint =
          "a program writes xray-log.NAME.XXXXXX to its working directory when its log is flushed";
    }
    return error;
  }
  // Shared, since a function that owns it must be copyable.
  const auto fd = std::make_shared<UniqueFd>(std::move(*opened));
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return fail_errno("could not check " + path);
  return xray::ByteSource{static_cast<std::uint64_t>(info.st_size),
                          [fd](std::uint64_t offset, std::span<char> to) -> std::size_t {
                            const ssize_t got = ::pread(fd->get(), to.data(), to.size(),
                                                        static_cast<off_t>(offset));
                            return got < 0 ? 0 : static_cast<std::size_t>(got);
                          }};
}

Result<xray::Log> open_logs(const std::vector<std::string>& paths, bool force) {
  xray::Log log;
  for (const std::string& path : paths) {
    auto source = open_log(path);
    if (!source) return source.error();
    if (auto added = log.add(std::move(*source)); !added) return about(path, added.error());
  }
  if (!force && !log.is_of_one_process()) {
    return invalid_argument("these traces are of different processes",
                            "convert the traces of each process separately, or use --force");
  }
  log.sort();
  if (log.buffers() == 0) {
    return fail(ErrorCode::kMalformed, paths.front() + " has no records",
                "check that the process was patched and its log flushed");
  }
  return log;
}

Error mismatch_error(const xray::Mismatch& mismatch, const std::string& binary) {
  return fail(
      ErrorCode::kMalformed,
      binary + " did not write this trace: " + std::to_string(mismatch.beyond + mismatch.unlike) +
          " functions do not fit, for example number " + std::to_string(mismatch.example),
      "give the binary that ran with --binary, or use --force");
}

// Writes an image that names the functions of no binary, beside the profile.
Result<void> write_unknown_image(const std::vector<std::uint32_t>& ids, const std::string& output,
                                 Profile& profile) {
  if (ids.empty() || output == "-") return {};
  const std::string path = output + ".xray.so";
  auto file = OutputFile::open(path, ExistingFile::kReplaced);
  if (!file) return file.error();
  xray::UnknownImage image = xray::make_unknown_image(ids);
  file->write(image.bytes);
  if (auto written = file->commit(); !written) return written;
  image.mapping.path = std::filesystem::absolute(path).string();
  profile.mappings.push_back(std::move(image.mapping));
  return {};
}

class Conversion {
 public:
  Conversion(const TraceConversion& options, xray::Log log, InstrumentedCode code)
      : options_(options), log_(std::move(log)), code_(std::move(code)), seed_(random_seed()) {}

  Result<ConvertReport> run() {
    xray::Measured measured = read(nullptr);
    const auto mismatch = xray::find_mismatch(measured.tree, code_.code());
    if (mismatch && !options_.force) return mismatch_error(mismatch, options_.binaries.front());
    report_.counts = log_.report();
    report_.counts.add(measured.report);
    report_.clock = log_.clock();
    report_.output = options_.output;
    count_stacks(measured.tree);
    auto file = OutputFile::open(options_.output, ExistingFile::kReplaced);
    if (!file) return file.error();
    if (auto written = write(measured.tree, *file); !written) return written.error();
    if (auto committed = file->commit(); !committed) return committed.error();
    return std::move(report_);
  }

 private:
  [[nodiscard]] xray::Measured read(xray::Listener* listener) {
    xray::StacksOptions options;
    options.seed = seed_;
    options.listener = listener;
    xray::Stacks stacks(options);
    log_.read(stacks);
    return stacks.finish();
  }

  void count_stacks(const xray::CallTree& tree) {
    std::set<std::uint32_t> unknown;
    for (const xray::CallTree::Node& node : tree.nodes()) {
      if (node.parent == xray::CallTree::kNone) continue;
      if (node.calls != 0 || node.self_ticks != 0) ++report_.stacks;
      if (code_.code().find(node.function()) == nullptr) unknown.insert(node.function());
    }
    report_.unknown_functions = unknown.size();
  }

  Result<void> write(xray::CallTree& tree, OutputFile& file) {
    const double ns_per_tick = log_.clock().ns_per_tick();
    const auto name_of = [this](std::uint32_t id) { return code_.name_of(id); };
    if (options_.form == SampleForm::kProf) return write_profile(tree, file);
    if (options_.form == SampleForm::kFolded) {
      const auto value =
          options_.calls ? xray::FoldedValue::kCalls : xray::FoldedValue::kNanoseconds;
      file.write(xray::make_folded(tree, ns_per_tick, value, name_of));
      return {};
    }
    xray::TraceWriter trace({log_.first_ticks(), ns_per_tick}, name_of,
                            [&file](std::string_view text) { file.write(text); });
    (void)read(&trace);
    trace.finish();
    return {};
  }

  // Frees the tree before the profile is encoded: both are large for a million stacks.
  Result<void> write_profile(xray::CallTree& tree, OutputFile& file) {
    auto made = xray::make_profiles(tree, log_.clock().ns_per_tick(), code_.code(),
                                    {.exclusive = !options_.calls, .calls = options_.calls});
    tree.clear();
    report_.counts.count(xray::Issue::kCutStack, made.cut_stacks);
    Profile& profile = options_.calls ? made.calls : made.exclusive;
    profile.mappings = code_.mappings();
    if (auto named = write_unknown_image(made.unknown, options_.output, profile); !named) {
      return named;
    }
    file.write(encode_gperftools(profile));
    return {};
  }

  const TraceConversion& options_;
  xray::Log log_;
  InstrumentedCode code_;
  std::uint64_t seed_;
  ConvertReport report_;
};

std::string megahertz_text(double hz) { return std::to_string(std::llround(hz / 1e6)) + " MHz"; }

// One sentence, then a line for each kind of issue.
void print_conversion(const ConvertReport& report, const Console& console) {
  const xray::Report& counts = report.counts;
  console.err << "profctl: " << counted(counts.entries, "call") << " by "
              << counted(counts.threads, "thread") << " in " << counted(report.stacks, "stack")
              << "\n";
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    if (counts[issue] == 0) continue;
    console.err << "profctl: " << counts[issue] << " " << xray::issue_text(issue, counts[issue])
                << "\n";
  }
  if (report.clock.header_is_wrong()) {
    console.err << "profctl: the header of the trace gives a clock of "
                << megahertz_text(static_cast<double>(report.clock.header_hz()))
                << "; compared with the wall clock it is "
                << megahertz_text(report.clock.frequency_hz()) << ", which is used\n";
  }
  if (report.unknown_functions != 0) {
    console.err << "profctl: " << counted(report.unknown_functions, "function")
                << " not found in the binaries, named xray:ID\n";
  }
}

// One line of JSON.
std::string to_json(const ConvertReport& report) {
  const xray::Report& counts = report.counts;
  boost::json::object issues;
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    if (counts[issue] != 0) issues[xray::issue_name(issue)] = counts[issue];
  }
  return json_text(boost::json::object{
      {"output", report.output},
      {"calls", counts.entries},
      {"records", counts.records},
      {"buffers", counts.buffers},
      {"threads", counts.threads},
      {"stacks", report.stacks},
      {"custom_events", counts.custom_events},
      {"typed_events", counts.typed_events},
      {"clock_hz", std::llround(report.clock.frequency_hz())},
      {"header_clock_hz", report.clock.header_hz()},
      {"unknown_functions", report.unknown_functions},
      {"issues", std::move(issues)},
  });
}

}  // namespace

bool is_xray_trace(const std::string& path) {
  const auto fd = open_regular_file(path);
  std::array<unsigned char, 4> head{};
  if (!fd || ::pread(fd->get(), head.data(), head.size(), 0) != ssize_t{head.size()}) {
    return false;
  }
  // A version of 1 to 5 and the type 1, in either byte order (formats/xray/fdr_format.h). No other
  // form that profctl reads begins so.
  const auto is_version = [](unsigned char low, unsigned char high) {
    return low >= 1 && low <= 5 && high == 0;
  };
  const bool is_little = is_version(head[0], head[1]) && head[2] == 1 && head[3] == 0;
  const bool is_big = is_version(head[1], head[0]) && head[2] == 0 && head[3] == 1;
  return is_little || is_big;
}

Result<int> convert_traces(const TraceConversion& options, const Console& console) {
  auto code = InstrumentedCode::open(options.binaries, options.build_id);
  if (!code) return code.error();
  auto log = open_logs(options.logs, options.force);
  if (!log) return log.error();
  const auto report = Conversion(options, std::move(*log), std::move(*code)).run();
  if (!report) return report.error();
  if (!console.json) {
    print_conversion(*report, console);
  } else {
    (options.output == "-" ? console.err : console.out) << to_json(*report) << "\n";
  }
  return kExitOk;
}

}  // namespace profd
