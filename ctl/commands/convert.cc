// convert: XRay traces of the caller's own become a profile, folded stacks or a timeline. The
// daemon has no part in it.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <random>
#include <utility>

#include "ctl/commands/commands.h"
#include "ctl/commands/convert_report.h"
#include "ctl/doctor/instrumented_code.h"
#include "ctl/output/file.h"
#include "formats/base/unique_fd.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/xray/log.h"
#include "formats/xray/trace.h"

namespace profd {
namespace {

std::uint64_t random_seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

Error not_opened(const std::string& path) {
  Error error = fail_errno("could not open " + path);
  if (error.code == ErrorCode::kNotFound) {
    error.hint = "a program writes xray-log.NAME.XXXXXX where it runs, when its log is flushed";
  }
  return error;
}

// Shares the descriptor with the function that reads from it.
Result<xray::ByteSource> open_log(const std::string& path) {
  const auto fd = std::make_shared<UniqueFd>(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd->valid()) return not_opened(path);
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return fail_errno("could not look at " + path);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, path + " is no regular file",
                "its buffers are not read in their order: store the trace first");
  }
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
    if (auto added = log.add(std::move(*source)); !added) {
      Error error = added.error();
      error.message = path + ": " + error.message;
      return error;
    }
  }
  if (!force && !log.is_of_one_process()) {
    return fail(ErrorCode::kInvalidArgument, "these traces are of different processes",
                "convert those of each process by themselves, or --force");
  }
  log.sort();
  if (log.buffers() == 0) {
    return fail(ErrorCode::kMalformed, "no records are in " + paths.front(),
                "was the process patched, and its log flushed?");
  }
  return log;
}

Error mismatch_error(const xray::Mismatch& mismatch, const std::string& binary) {
  return fail(ErrorCode::kMalformed,
              binary + " is not what wrote this trace: " +
                  std::to_string(mismatch.beyond + mismatch.unlike) +
                  " functions don't fit, such as number " + std::to_string(mismatch.example),
              "give the binary that ran with --binary, or --force");
}

// The image that names unknown functions, beside the profile.
Result<void> write_unknown_image(const std::vector<std::uint32_t>& ids, const std::string& output,
                                 Profile& profile) {
  if (ids.empty() || output == "-") return {};
  const std::string path = output + ".xray.so";
  auto file = OutputFile::open(path);
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
  Conversion(const ConvertOptions& options, xray::Log log, InstrumentedCode code)
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
    auto file = OutputFile::open(options_.output);
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
    std::vector<std::uint32_t> unknown;
    for (const xray::CallTree::Node& node : tree.nodes()) {
      if (node.parent == xray::CallTree::kNone) continue;
      if (node.calls != 0 || node.self_ticks != 0) ++report_.stacks;
      if (code_.code().find(node.function()) == nullptr) unknown.push_back(node.function());
    }
    std::ranges::sort(unknown);
    unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
    report_.unknown_functions = unknown.size();
  }

  Result<void> write(xray::CallTree& tree, OutputFile& file) {
    switch (options_.format) {
      case ConvertFormat::kProfile:
        return write_profile(tree, file);
      case ConvertFormat::kFolded:
        file.write(xray::make_folded(
            tree, log_.clock().ns_per_tick(),
            options_.calls ? xray::FoldedValue::kCalls : xray::FoldedValue::kNanoseconds, names()));
        return {};
      case ConvertFormat::kTrace:
        write_trace(file);
        return {};
    }
    return {};
  }

  // Takes the tree: a profile of a million stacks needs its room.
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

  void write_trace(OutputFile& file) {
    xray::TraceWriter trace({log_.first_ticks(), log_.clock().ns_per_tick()}, names(),
                            [&file](std::string_view text) { file.write(text); });
    (void)read(&trace);
    trace.finish();
  }

  [[nodiscard]] xray::NameOf names() const {
    return [this](std::uint32_t id) { return code_.name_of(id); };
  }

  const ConvertOptions& options_;
  xray::Log log_;
  InstrumentedCode code_;
  std::uint64_t seed_;
  ConvertReport report_;
};

}  // namespace

int run_convert(const Options& options, const Console& console) {
  const ConvertOptions& convert = options.convert;
  if (convert.calls && convert.format == ConvertFormat::kTrace) {
    return report(console, fail(ErrorCode::kInvalidArgument, "a timeline has no numbers of calls",
                                "--calls goes with --format prof or folded"));
  }
  auto code = InstrumentedCode::open(convert.binaries, convert.build_id);
  if (!code) return report(console, code.error());
  auto log = open_logs(convert.logs, convert.force);
  if (!log) return report(console, log.error());
  const auto converted = Conversion(convert, std::move(*log), std::move(*code)).run();
  if (!converted) return report(console, converted.error());
  if (!options.json) {
    print_report(*converted, console);
  } else {
    (convert.output == "-" ? console.err : console.out) << to_json(*converted) << "\n";
  }
  return kExitOk;
}

}  // namespace profd
