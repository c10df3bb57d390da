#include "daemon/storage/result_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <random>
#include <stdexcept>
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

constexpr const char* kMetaFile01 = "meta.json";  // of a result of profd 0.1

boost::json::object json_of_file(const StoredResult& result, const ResultFile& file) {
  return {{"path", file.path}, {"offset", result.offsets.at(file.path)}, {"bytes", file.bytes}};
}

// Throws on invalid JSON, and on a file that is not before the index.
ResultFile file_of_json(const boost::json::value& json, std::uint64_t end, StoredResult& result) {
  ResultFile file{.path = boost::json::value_to<std::string>(json.at("path")),
                  .bytes = json.at("bytes").to_number<std::uint64_t>()};
  const auto offset = json.at("offset").to_number<std::uint64_t>();
  if (offset > end || file.bytes > end - offset) {
    throw std::out_of_range("a file lies outside of the result");
  }
  result.offsets[file.path] = offset;
  return file;
}

// To remove a file of 64 MiB takes some milliseconds.
constexpr std::uint64_t kMaxRemovedAtOnce = std::uint64_t{1} << 20;
constexpr std::size_t kMaxFilesAtOnce = 256;

// After a result that has expired could not be removed.
constexpr std::chrono::minutes kNextTry{1};

// Far above what is written: 80 bytes a file and 350 a profile.
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

// session.json, with the owner, how long the result is kept, and where its files are.
std::string encode_index(const StoredResult& result) {
  boost::json::array files;
  for (const ResultFile& file : result.info.files) {
    files.push_back(json_of_file(result, file));
  }
  boost::json::object index{{"session", boost::json::parse(to_json(result.session))},
                            {"summary", boost::json::parse(to_json(result.info.summary))},
                            {"dump", result.is_dump},
                            {"keep_seconds", result.keep.count()},
                            {"created", std::chrono::system_clock::to_time_t(result.created)},
                            {"files", std::move(files)}};
  if (result.user) index["user"] = *result.user;
  if (result.info.named_profile) {
    index["named_profile"] = json_of_file(result, *result.info.named_profile);
  }
  return boost::json::serialize(index) + "\n";
}

// Throws on invalid JSON.
StoredResult decode_index(const ResultIndex& from) {
  const boost::json::value meta = boost::json::parse(from.text);
  StoredResult result;
  result.session = parse_session_info(boost::json::serialize(meta.at("session"))).value();
  result.info.summary = parse_session_summary(boost::json::serialize(meta.at("summary"))).value();
  result.is_dump = meta.at("dump").as_bool();
  result.keep = std::chrono::seconds(meta.at("keep_seconds").to_number<std::int64_t>());
  result.created =
      std::chrono::system_clock::from_time_t(meta.at("created").to_number<std::time_t>());
  for (const boost::json::value& file : meta.at("files").as_array()) {
    result.info.files.push_back(file_of_json(file, from.offset, result));
  }
  if (const auto* named = meta.as_object().if_contains("named_profile")) {
    result.info.named_profile = file_of_json(*named, from.offset, result);
  }
  if (const auto* user = meta.as_object().if_contains("user")) {
    result.user = user->to_number<uid_t>();
  }
  result.file_bytes = from.file_bytes;
  return result;
}

// Whether the result in a file has the file's name as its id.
bool has_id(const StoredResult& result, const std::string& id) {
  const std::string& session = result.session.session;
  const bool fits = result.is_dump ? id.starts_with(session + "-dump-") : id == session;
  return fits && is_valid_id(session) && is_valid_id(id) &&
         std::ranges::all_of(result.info.files, [](const ResultFile& file) {
           return is_valid_result_path(file.path);
         });
}

bool is_result_of_01(int directory, const std::string& name) {
  struct stat status {};
  const std::string meta = name + "/" + kMetaFile01;
  return ::fstatat(directory, meta.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
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

// By the wall clock, since no other one continues after a restart. Not more than result.keep where
// the clock was set back.
std::chrono::seconds time_left(const StoredResult& result) {
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now() - result.created);
  return std::min(result.keep - age, result.keep);
}

}  // namespace

Result<void> remove_hidden(const std::string& results_dir, std::span<HiddenResult> files) {
  const UniqueFd directory = open_directory(AT_FDCWD, results_dir);
  if (!directory.valid()) return fail_errno("could not open " + results_dir);
  Result<void> all_removed;
  for (HiddenResult& file : files) {
    file.result = {};
    if (Result<void> removed = remove_tree(directory.get(), file.name); removed) {
      file.account.give_back(file.bytes);
    } else if (all_removed) {
      all_removed = removed;
    }
  }
  return all_removed;
}

Result<StoredResult> write_result(const std::string& results_dir, StoredResult result,
                                  const WriteFiles& write_files, ResultAccount account) {
  Result<ResultWriter> writer = ResultWriter::create(results_dir, std::move(account));
  if (!writer) return as_io(writer.error());
  Result<SessionSummary> summary = write_files(*writer);
  if (!summary) return as_io(summary.error());
  return commit_result(std::move(*writer), std::move(*summary), std::move(result));
}

Result<StoredResult> commit_result(ResultWriter writer, SessionSummary summary,
                                   StoredResult result) {
  result.info.summary = std::move(summary);
  for (const PackedFile& file : writer.files()) {
    result.info.files.push_back({.path = file.path, .bytes = file.bytes});
    result.offsets[file.path] = file.offset;
  }
  take_named_profile(result.info);
  const Result<void> done = writer.commit(result.info.result, encode_index(result));
  if (!done) return as_io(done.error());
  result.file_bytes = writer.bytes();
  return result;
}

std::string random_id() { return fmt::format("{:08x}", std::random_device()()); }

Result<ResultStore> ResultStore::open(const std::string& results_dir, UserRefusals* refusals) {
  const Result<UniqueFd> directory = open_own_directory(results_dir);
  if (!directory) return directory.error();
  ResultStore store(results_dir, refusals);
  if (auto loaded = store.load(directory->get()); !loaded) return loaded.error();
  return store;
}

UniqueFd ResultStore::directory_fd() const {
  return UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void ResultStore::adopt(StoredResult result) {
  const std::chrono::seconds keep = result.keep;
  add(std::move(result), keep);
}

// `left`: of result.keep.
void ResultStore::add(StoredResult result, std::chrono::seconds left) {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (result.keep.count() != 0) deadline = std::chrono::steady_clock::now() + left;
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
  if (open_beneath(directory.get(), id).valid()) return {};
  return as_io(fail_errno("could not open result " + id));
}

Result<OpenedFile> ResultStore::open_file(const StoredResult& result,
                                          const std::string& path) const {
  const std::string& id = result.info.result;
  const auto& named = result.info.named_profile;
  const auto found = std::ranges::find(result.info.files, path, &ResultFile::path);
  const bool is_named = named && named->path == path;
  if (!is_named && found == result.info.files.end()) {
    return fail(ErrorCode::kNotFound, "result " + id + " has no file " + path);
  }
  const UniqueFd directory = directory_fd();
  OpenedFile opened{.fd = open_beneath(directory.get(), id),
                    .offset = result.offsets.at(path),
                    .bytes = is_named ? named->bytes : found->bytes};
  struct stat status {};
  if (!opened.fd.valid() || ::fstat(opened.fd.get(), &status) != 0) {
    return as_io(fail_errno("could not open " + path + " of result " + id));
  }
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) != result.file_bytes) {
    return fail(ErrorCode::kIo, "the file of result " + id + " has changed");
  }
  return opened;
}

Result<void> ResultStore::remove(const std::string& id) {
  const auto found = results_.find(id);
  if (found == results_.end()) return fail(ErrorCode::kNotFound, "no result " + id);
  const UniqueFd directory = directory_fd();
  Result<std::string> hidden = directory.valid()
                                   ? hide(directory.get(), id)
                                   : Result<std::string>(fail_errno("could not open " + path_));
  const bool is_gone = hidden || hidden.error().code == ErrorCode::kNotFound;
  if (!is_gone) return hidden.error();
  HiddenResult file{.name = {},
                    .account = account_of(found->second.result.user),
                    .bytes = found->second.result.bytes(),
                    .result = std::move(found->second.result)};
  results_.erase(found);
  if (!hidden) {
    file.account.give_back(file.bytes);
    return as_io(hidden.error());
  }
  const bool is_small =
      file.bytes <= kMaxRemovedAtOnce && file.result.info.files.size() <= kMaxFilesAtOnce;
  if (is_small && remove_tree(directory.get(), *hidden)) {
    file.account.give_back(file.bytes);
    return {};
  }
  file.name = std::move(*hidden);
  hidden_.push_back(std::move(file));
  return {};
}

void ResultStore::expire() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::string> expired;
  for (const auto& [id, kept] : results_) {
    if (kept.deadline && *kept.deadline <= now) expired.push_back(id);
  }
  for (const std::string& id : expired) {
    const Result<void> removed = remove(id);
    if (removed) continue;
    log::warn("{}", removed.error().message);
    if (const auto kept = results_.find(id); kept != results_.end()) {
      kept->second.deadline = now + kNextTry;
    }
  }
}

std::uint64_t ResultStore::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, kept] : results_) sum += kept.result.bytes();
  return sum;
}

Result<void> ResultStore::load(int directory) {
  const auto names = list_directory(path_);
  if (!names) return names.error();
  std::size_t old = 0;
  for (const std::string& name : *names) {
    const bool is_old = is_result_of_01(directory, name);
    if (is_old || name.starts_with('.')) {  // the latter: not committed, or not quite removed
      if (auto removed = remove_tree(directory, name); !removed) return removed;
      old += is_old ? 1 : 0;
    } else if (auto result = load_one(directory, name); !result) {
      log::warn("could not load result {}: {}", log_text(name), result.error().message);
    } else {
      account_of(result->user).charge_anyway(result->bytes());
      const std::chrono::seconds left = time_left(*result);
      add(std::move(*result), left);
    }
  }
  if (old != 0) log::info("removed the results of profd 0.1, of another form: {}", old);
  return {};
}

Result<StoredResult> ResultStore::load_one(int directory, const std::string& id) const {
  const UniqueFd file = open_beneath(directory, id);
  if (!file.valid()) return fail_errno("could not open it");
  const Result<ResultIndex> index = read_result_index(file.get(), kMaxIndexBytes);
  if (!index) return index.error();
  try {
    StoredResult result = decode_index(*index);
    result.info.result = id;
    if (has_id(result, id)) return result;
    return fail(ErrorCode::kMalformed, "the index belongs to another result");
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kMalformed, std::string("could not parse the index: ") + problem.what());
  }
}

}  // namespace profd
