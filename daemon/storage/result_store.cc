#include "daemon/storage/result_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <fmt/core.h>

#include "daemon/base/log.h"
#include "daemon/storage/file_io.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

constexpr const char* kMetaFile = "meta.json";
constexpr const char* kSummaryFile = "session.json";

boost::json::object json_of_file(const ResultFile& file) {
  return {{"path", file.path}, {"bytes", file.bytes}};
}

ResultFile file_of_json(const boost::json::value& json) {
  return {.path = boost::json::value_to<std::string>(json.at("path")),
          .bytes = json.at("bytes").to_number<std::uint64_t>()};
}

// Files of a result. 4,700 take 90 ms of the CPU.
constexpr std::size_t kMaxRemovedAtOnce = 100;

// Far above what is written: 64 bytes a file and 350 a profile.
constexpr std::size_t kMaxStoredJsonBytes = std::size_t{64} << 20;

// What session.json does not have: the owner and how long the result is kept.
std::string encode_meta(const StoredResult& result) {
  boost::json::array files;
  for (const ResultFile& file : result.info.files) {
    files.push_back(json_of_file(file));
  }
  boost::json::object meta{{"session", boost::json::parse(to_json(result.session))},
                           {"dump", result.is_dump},
                           {"keep_seconds", result.keep.count()},
                           {"created", std::chrono::system_clock::to_time_t(result.created)},
                           {"files", std::move(files)}};
  if (result.info.named_profile) meta["named_profile"] = json_of_file(*result.info.named_profile);
  return boost::json::serialize(meta) + "\n";
}

// Throws on invalid JSON.
StoredResult decode_meta(const std::string& text) {
  const boost::json::value meta = boost::json::parse(text);
  StoredResult result;
  result.session = parse_session_info(boost::json::serialize(meta.at("session"))).value();
  result.is_dump = meta.at("dump").as_bool();
  result.keep = std::chrono::seconds(meta.at("keep_seconds").to_number<std::int64_t>());
  result.created =
      std::chrono::system_clock::from_time_t(meta.at("created").to_number<std::time_t>());
  for (const boost::json::value& file : meta.at("files").as_array()) {
    result.info.files.push_back(file_of_json(file));
  }
  if (const auto* named = meta.as_object().if_contains("named_profile")) {
    result.info.named_profile = file_of_json(*named);
  }
  return result;
}

// Whether the result in a directory has the directory's name as its id.
bool has_id(const StoredResult& result, const std::string& id) {
  const std::string& session = result.session.session;
  const bool fits = result.is_dump ? id.starts_with(session + "-dump-") : id == session;
  return fits && is_valid_id(session) && is_valid_id(id) &&
         std::ranges::all_of(result.info.files, [](const ResultFile& file) {
           return is_valid_result_path(file.path);
         });
}

// A file that is missing on the disk is not the caller's error.
Error as_io(Error error) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kIo;
  return error;
}

// The named profile is not a file of the result's directory.
void take_named_profile(ResultInfo& info) {
  const auto named = std::ranges::find(info.files, kNamedProfile, &ResultFile::path);
  if (named == info.files.end()) return;
  info.named_profile = *named;
  info.files.erase(named);
}

std::uint64_t bytes_of_files(const std::vector<ResultFile>& files) {
  std::uint64_t sum = 0;
  for (const ResultFile& file : files) sum += file.bytes;
  return sum;
}

// Whether a file has not the size that it was written with.
bool is_cut(int directory, const StoredResult& result) {
  const auto has_size = [&](const ResultFile& file) {
    const std::string path = result.info.result + "/" + file.path;
    struct stat status {};
    return ::fstatat(directory, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == file.bytes;
  };
  const auto& named = result.info.named_profile;
  return !std::ranges::all_of(result.info.files, has_size) || (named && !has_size(*named));
}

}  // namespace

std::uint64_t StoredResult::bytes() const { return own_bytes + bytes_of_files(info.files); }

Result<StoredResult> write_result(const std::string& results_dir, StoredResult result,
                                  const WriteFiles& write_files) {
  Result<ResultWriter> writer = ResultWriter::create(results_dir);
  if (!writer) return as_io(writer.error());
  Result<SessionSummary> summary = write_files(*writer);
  if (!summary) return as_io(summary.error());
  return commit_result(std::move(*writer), std::move(*summary), std::move(result));
}

Result<StoredResult> commit_result(ResultWriter writer, SessionSummary summary,
                                   StoredResult result) {
  result.info.summary = std::move(summary);
  result.info.files = writer.files();
  take_named_profile(result.info);
  writer.set_syncs_files(true);
  auto done = writer.add(kSummaryFile, to_json(result.info.summary));
  if (done) done = writer.add(kMetaFile, encode_meta(result));
  result.own_bytes = bytes_of_files(writer.files()) - bytes_of_files(result.info.files);
  if (done) done = writer.commit(result.info.result);
  if (!done) return as_io(done.error());
  return result;
}

std::string random_id() { return fmt::format("{:08x}", std::random_device()()); }

Result<ResultStore> ResultStore::open(const std::string& results_dir) {
  const Result<UniqueFd> directory = open_own_directory(results_dir);
  if (!directory) return directory.error();
  ResultStore store(results_dir);
  if (auto loaded = store.load(directory->get()); !loaded) return loaded.error();
  return store;
}

UniqueFd ResultStore::directory_fd() const {
  return UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void ResultStore::adopt(StoredResult result) {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (result.keep.count() != 0) {
    // Not longer where the clock was set back.
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now() - result.created);
    const auto left = result.keep - age;
    deadline = std::chrono::steady_clock::now() + std::min(left, result.keep);
  }
  const std::string id = result.info.result;
  results_.insert_or_assign(id, Kept{.result = std::move(result), .deadline = deadline});
}

const StoredResult* ResultStore::find(const std::string& id) const {
  const auto found = results_.find(id);
  return found == results_.end() ? nullptr : &found->second.result;
}

std::vector<const StoredResult*> ResultStore::all() const {
  std::vector<const StoredResult*> all;
  for (const auto& [id, kept] : results_) all.push_back(&kept.result);
  return all;
}

Result<void> ResultStore::check(const StoredResult& result) const {
  const std::string& id = result.info.result;
  const UniqueFd directory = directory_fd();
  if (open_beneath(directory.get(), id + "/" + kMetaFile).valid()) return {};
  return as_io(fail_errno("could not open result " + id));
}

Result<OpenedFile> ResultStore::open_file(const StoredResult& result,
                                          const std::string& path) const {
  const std::string& id = result.info.result;
  const auto& named = result.info.named_profile;
  const bool has_file =
      (named && named->path == path) ||
      std::ranges::find(result.info.files, path, &ResultFile::path) != result.info.files.end();
  if (!has_file) {
    return fail(ErrorCode::kNotFound, "result " + id + " has no file " + path);
  }
  const UniqueFd directory = directory_fd();
  OpenedFile opened{.fd = open_beneath(directory.get(), id + "/" + path)};
  struct stat status {};
  if (!opened.fd.valid() || ::fstat(opened.fd.get(), &status) != 0) {
    return as_io(fail_errno("could not open " + path + " of result " + id));
  }
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  return opened;
}

Result<void> ResultStore::remove(const std::string& id) {
  const auto found = results_.find(id);
  if (found == results_.end()) return fail(ErrorCode::kNotFound, "no result " + id);
  const bool has_many = found->second.result.info.files.size() > kMaxRemovedAtOnce;
  results_.erase(found);
  const UniqueFd directory = directory_fd();
  Result<std::string> hidden = hide(directory.get(), id);
  if (!hidden) return as_io(hidden.error());
  if (has_many) {
    hidden_.push_back(std::move(*hidden));
    return {};
  }
  if (auto removed = remove_tree(directory.get(), *hidden); !removed) return as_io(removed.error());
  return {};
}

void ResultStore::expire() {
  std::vector<std::string> expired;
  for (const auto& [id, kept] : results_) {
    if (kept.deadline && *kept.deadline <= std::chrono::steady_clock::now()) expired.push_back(id);
  }
  for (const std::string& id : expired) {
    if (auto removed = remove(id); !removed) log::warn("{}", removed.error().message);
  }
}

std::uint64_t ResultStore::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, kept] : results_) sum += kept.result.bytes();
  return sum;
}

std::uint64_t ResultStore::bytes_of(uid_t uid) const {
  std::uint64_t sum = 0;
  for (const auto& [id, kept] : results_) {
    if (kept.result.session.uid == uid) sum += kept.result.bytes();
  }
  return sum;
}

Result<void> ResultStore::load(int directory) {
  const auto names = list_directory(path_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (name.starts_with('.')) {  // not committed, or not quite removed
      if (auto removed = remove_tree(directory, name); !removed) return removed;
    } else if (auto result = load_one(directory, name); !result) {
      log::warn("could not load result {}: {}", log_text(name), result.error().message);
    } else if (result->keep.count() != 0 && is_cut(directory, *result)) {
      log::warn("result {} was not written to its end, and is removed", log_text(name));
      if (auto removed = remove_tree(directory, name); !removed) return removed;
    } else {
      adopt(std::move(*result));
    }
  }
  return {};
}

Result<StoredResult> ResultStore::load_one(int directory, const std::string& id) const {
  const auto meta = read_beneath(directory, id + "/" + kMetaFile, kMaxStoredJsonBytes);
  if (!meta) return meta.error();
  const auto json = read_beneath(directory, id + "/" + kSummaryFile, kMaxStoredJsonBytes);
  if (!json) return json.error();
  auto summary = parse_session_summary(*json);
  if (!summary) return summary.error();
  try {
    StoredResult result = decode_meta(*meta);
    result.info.result = id;
    result.info.summary = std::move(*summary);
    result.own_bytes = meta->size() + json->size();
    if (result.info.named_profile) result.own_bytes += result.info.named_profile->bytes;
    if (has_id(result, id)) return result;
    return fail(ErrorCode::kMalformed, std::string(kMetaFile) + " belongs to another result");
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kMalformed,
                "could not parse " + std::string(kMetaFile) + ": " + problem.what());
  }
}

}  // namespace profd
