// Downloads the debug files that the daemon lacks. The daemon has no network: this runs with the
// caller's rights, and writes to a directory that the daemon reads.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/commands/debug_cache.h"
#include "ctl/commands/debuginfod.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/subcommand.h"
#include "ctl/options/values.h"
#include "ctl/output/text.h"
#include "ctl/sources/file_reader.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/profile/lineless_files.h"

namespace profd {
namespace {

enum class DebuginfoAction { kList, kFetch };

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kDefaultFiles = 100;
constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{2} << 30;
constexpr const char* kHostDebugFiles = "/usr/lib/debug/.build-id/";

struct DebuginfoOptions {
  DebuginfoAction action = DebuginfoAction::kList;
  ExportRequest request;
  std::string input;  // a file instead of the history
  std::vector<std::string> urls;
  std::string cache = kDebugCacheDirectory;
  std::uint64_t limit = kDefaultFiles;
  std::uint64_t max_mebibytes = 1024;  // of one file
  std::uint64_t max_ms = 300'000;      // for one file
};

struct DebuginfoReport {
  std::uint64_t fetched = 0;
  std::uint64_t bytes = 0;
  std::uint64_t present = 0;  // in the cache already
  std::uint64_t not_found = 0;
  std::uint64_t failed = 0;
  std::uint64_t removed = 0;  // older files, for room
};

Result<DebuginfoAction> parse_action(const std::string& name) {
  if (name == "list") return DebuginfoAction::kList;
  if (name == "fetch") return DebuginfoAction::kFetch;
  return invalid_argument("invalid ACTION '" + name + "' (list or fetch)");
}

std::uint64_t an_hour_ago_ms() {
  const auto time = std::chrono::system_clock::now() - std::chrono::hours(1);
  return static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count());
}

// Whether a debug file of the build id is installed.
bool is_installed(const std::string& build_id) {
  const std::string path =
      kHostDebugFiles + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
  return ::access(path.c_str(), F_OK) == 0;
}

// A line that is replaced by the next one.
class DownloadProgress {
 public:
  explicit DownloadProgress(const Console& console) : console_(console) {}

  void show(const LinelessFile& file, std::uint64_t done, std::uint64_t all) {
    if (!console_.err_screen.is_terminal()) return;
    console_.err << "\r\033[K" << printable(file.path) << "  " << bytes_text(done)
                 << (all == 0 ? std::string() : " of " + bytes_text(all)) << std::flush;
  }
  void clear() {
    if (console_.err_screen.is_terminal()) console_.err << "\r\033[K" << std::flush;
  }

 private:
  const Console& console_;
};

class Download {
 public:
  Download(const DebuginfoOptions& options, const Console& console)
      : options_(options), console_(console), progress_(console) {}

  Result<DebuginfoReport> run(const std::vector<LinelessFile>& files) {
    Result<DebugCache> cache = DebugCache::open(options_.cache);
    if (!cache) return cache.error();
    Result<Debuginfod> servers = open_servers();
    if (!servers) return servers.error();
    for (const LinelessFile& file : files) {
      if (cache->has(file.build_id)) {
        ++report_.present;
        continue;
      }
      current_ = &file;
      const Result<std::uint64_t> stored = fetch(file, *servers, *cache);
      progress_.clear();
      count(file, stored);
    }
    return report_;
  }

 private:
  Result<Debuginfod> open_servers() {
    std::string urls;
    for (const std::string& url : options_.urls) urls += (urls.empty() ? "" : " ") + url;
    const auto time =
        std::chrono::ceil<std::chrono::seconds>(std::chrono::milliseconds(options_.max_ms));
    return Debuginfod::open({.urls = urls, .max_bytes = max_bytes(), .max_time = time},
                            [this](std::uint64_t done, std::uint64_t all) {
                              if (current_ != nullptr) progress_.show(*current_, done, all);
                            });
  }

  [[nodiscard]] std::uint64_t max_bytes() const { return options_.max_mebibytes * kMebibyte; }

  Result<std::uint64_t> fetch(const LinelessFile& file, Debuginfod& servers, DebugCache& cache) {
    const Result<UniqueFd> found = servers.find(file.build_id);
    if (!found) return found.error();
    Result<std::uint64_t> stored = cache.store(file.build_id, found->get(), max_bytes());
    if (stored) report_.removed += cache.remove_oldest(kMaxCacheBytes, file.build_id);
    return stored;
  }

  void count(const LinelessFile& file, const Result<std::uint64_t>& stored) {
    if (stored) {
      ++report_.fetched;
      report_.bytes += *stored;
      if (console_.json) return;
      console_.out << printable(file.path) << "  " << file.build_id << "  " << bytes_text(*stored)
                   << "\n";
    } else if (stored.error().code == ErrorCode::kNotFound) {
      ++report_.not_found;
    } else {
      ++report_.failed;
      console_.err << "profctl: " << printable(file.path) << ": "
                   << printable(stored.error().message) << "\n";
    }
  }

  const DebuginfoOptions& options_;
  const Console& console_;
  DownloadProgress progress_;
  DebuginfoReport report_;
  const LinelessFile* current_ = nullptr;
};

void print_missing(const std::vector<LinelessFile>& files, const Console& console) {
  if (console.json) {
    boost::json::array list;
    for (const LinelessFile& file : files) {
      list.push_back(boost::json::object{
          {"build_id", file.build_id}, {"path", file.path}, {"samples", file.samples}});
    }
    console.out << json_text(boost::json::object{{"missing", std::move(list)}}) << "\n";
    return;
  }
  TableRows rows{{"SAMPLES", "BUILD ID", "FILE"}};
  for (const LinelessFile& file : files) {
    rows.push_back({std::to_string(file.samples), file.build_id, file.path});
  }
  print_table(std::move(rows), console.out);
}

void print_downloads(const DebuginfoReport& report, const Console& console) {
  if (report.removed != 0) {
    console.err << "profctl: removed " << counted(report.removed, "older debug file")
                << ", to keep " << bytes_text(kMaxCacheBytes) << " at most\n";
  }
  if (console.json) {
    console.out << json_text(boost::json::object{{"fetched", report.fetched},
                                                 {"bytes", report.bytes},
                                                 {"present", report.present},
                                                 {"not_found", report.not_found},
                                                 {"failed", report.failed}})
                << "\n";
    return;
  }
  console.err << "profctl: " << counted(report.fetched, "debug file") << " downloaded ("
              << bytes_text(report.bytes) << "), " << report.present << " there already, "
              << report.not_found << " on no server, " << report.failed << " failed\n";
}

class Debuginfo final : public Subcommand {
 public:
  Debuginfo() : Subcommand("debuginfo", "List or download the debug files that profd lacks") {}

  void add_options(OptionList& list) override {
    list.operand("ACTION", "list, or fetch from debuginfod servers",
                 {options_.action, parse_action});
    add_target(list, options_.request.target);
    add_range(list, options_.request.range);
    list.rule([this, &list]() -> Result<void> {
      const bool is_given = list.given("--since") || list.given("--until") || list.given("--last");
      if (!is_given) options_.request.range.since_ms = an_hour_ago_ms();
      return {};
    });
    list.option("-i,--input", "FILE", "Take the files of this .pb.gz instead of the history",
                Reader::path(options_.input));
    list.option("--url", "URL", "Ask this server [those in DEBUGINFOD_URLS]",
                Reader(options_.urls));
    list.option("--limit", "N", "At most N files, those with most samples [100]",
                {options_.limit, parse_limit});
    list.option("--max-size", "MIB", "Refuse larger files [1024]",
                {options_.max_mebibytes, parse_limit});
    list.option("--timeout", "SPAN", "Time for one file [5m]",
                {options_.max_ms, parse_duration_ms});
    list.option("--cache", "DIR", "Write to another directory, which profd does not read",
                Reader::path(options_.cache));
  }

  Result<int> run(Client& client, const Console& console) override {
    const Result<std::vector<LinelessFile>> files = find_missing(client);
    if (!files) return files.error();
    if (options_.action == DebuginfoAction::kList) {
      print_missing(*files, console);
      return kExitOk;
    }
    const Result<DebuginfoReport> report = Download(options_, console).run(*files);
    if (!report) return report.error();
    print_downloads(*report, console);
    return report->failed == 0 ? kExitOk : kExitFailed;
  }

 private:
  // Those that are not installed, the hottest first.
  Result<std::vector<LinelessFile>> find_missing(Client& client) {
    auto files = options_.input.empty() ? find_in_history(client) : find_in_input();
    if (!files) return files.error();
    std::erase_if(*files, [](const LinelessFile& file) { return is_installed(file.build_id); });
    if (files->size() > options_.limit) files->resize(options_.limit);
    return files;
  }

  Result<std::vector<LinelessFile>> find_in_history(Client& client) {
    const Result<std::string> packed = fetch_history(client);
    if (!packed) return packed.error();
    return find_lineless_files(*packed);
  }

  // Another user may have written it.
  Result<std::vector<LinelessFile>> find_in_input() {
    const auto file = SourceFile::open(options_.input);
    if (!file) return file.error();
    return FileReader().find_lineless(*file);
  }

  // One profile of the range, of what the caller may see.
  Result<std::string> fetch_history(Client& client) {
    ExportRequest request = options_.request;
    request.profile_only = true;
    const Result<ResultInfo> result = client.export_windows(request);
    if (!result) return explained_absence(result.error(), request.range, request.target, client);
    Result<std::string> profile =
        result->named_profile
            ? client.fetch(result->result, *result->named_profile)
            : Result<std::string>(fail(ErrorCode::kUnsupported, "the export has no names"));
    (void)client.remove(result->result);
    return profile;
  }

  DebuginfoOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_debuginfo() { return std::make_unique<Debuginfo>(); }

}  // namespace profd
