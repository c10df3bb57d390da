#include "daemon/result_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <boost/system/system_error.hpp>
#include <spdlog/spdlog.h>

#include "daemon/file_io.h"
#include "daemon/result_writer.h"
#include "daemon/session_writer.h"

namespace profd {
namespace {

constexpr const char* kMetaFile = "meta.json";
constexpr const char* kSummaryFile = "session.json";

// What session.json does not say: whose it is and how long it stays.
std::string encode_meta(const StoredResult& result) {
  boost::json::array files;
  for (const ResultFile& file : result.info.files) {
    files.push_back(boost::json::object{{"path", file.path}, {"bytes", file.bytes}});
  }
  const boost::json::object meta{{"session", boost::json::parse(to_json(result.session))},
                                 {"dump", result.is_dump},
                                 {"keep_seconds", result.keep.count()},
                                 {"created", std::chrono::system_clock::to_time_t(result.created)},
                                 {"files", std::move(files)}};
  return boost::json::serialize(meta) + "\n";
}

// Throws what boost::json throws; the caller makes a value of it.
StoredResult decode_meta(const std::string& text) {
  const boost::json::value meta = boost::json::parse(text);
  StoredResult result;
  result.session = parse_session_info(boost::json::serialize(meta.at("session"))).value();
  result.is_dump = meta.at("dump").as_bool();
  result.keep = std::chrono::seconds(meta.at("keep_seconds").to_number<std::int64_t>());
  result.created =
      std::chrono::system_clock::from_time_t(meta.at("created").to_number<std::time_t>());
  for (const boost::json::value& file : meta.at("files").as_array()) {
    result.info.files.push_back({.path = boost::json::value_to<std::string>(file.at("path")),
                                 .bytes = file.at("bytes").to_number<std::uint64_t>()});
  }
  return result;
}

// Never out of the results, and never through a link.
UniqueFd open_beneath(int directory, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

Result<std::string> read_beneath(int directory, const std::string& path) {
  const UniqueFd fd = open_beneath(directory, path);
  if (!fd.valid()) return fail_errno("could not open " + path);
  return read_all(fd.get(), path);
}

}  // namespace

std::uint64_t StoredResult::bytes() const {
  std::uint64_t sum = 0;
  for (const ResultFile& file : info.files) sum += file.bytes;
  return sum;
}

Result<StoredResult> write_result(const std::string& results_dir, const SessionSnapshot& snapshot,
                                  StoredResult result) {
  Result<ResultWriter> writer = ResultWriter::create(results_dir);
  if (!writer) return writer.error();
  Result<SessionSummary> summary = write_session(snapshot, *writer);
  if (!summary) return summary.error();
  result.info.summary = std::move(*summary);
  result.info.files = writer->files();
  if (Result<void> added = writer->add(kSummaryFile, to_json(result.info.summary)); !added) {
    return added.error();
  }
  if (Result<void> added = writer->add(kMetaFile, encode_meta(result)); !added) {
    return added.error();
  }
  if (Result<void> done = writer->commit(result.info.result); !done) return done.error();
  return result;
}

Result<ResultStore> ResultStore::open(const std::string& results_dir) {
  std::error_code error;
  std::filesystem::create_directories(results_dir, error);
  if (error) return fail_errno("could not make " + results_dir, error.value());
  if (::chmod(results_dir.c_str(), S_IRWXU) != 0) return fail_errno("could not own " + results_dir);
  UniqueFd directory(::open(results_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return fail_errno("could not open " + results_dir);
  ResultStore store(results_dir, std::move(directory));
  if (Result<void> loaded = store.load(); !loaded) return loaded.error();
  return store;
}

void ResultStore::adopt(StoredResult result) {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (result.keep.count() != 0) {
    // A clock that was set back must not keep it longer.
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

Result<OpenedFile> ResultStore::open_file(const StoredResult& result,
                                          const std::string& path) const {
  const std::string& id = result.info.result;
  if (!std::ranges::any_of(result.info.files,
                           [&path](const ResultFile& file) { return file.path == path; })) {
    return fail(ErrorCode::kNotFound, "result " + id + " has no file " + path);
  }
  OpenedFile opened{.fd = open_beneath(directory_.get(), id + "/" + path)};
  struct stat status {};
  if (!opened.fd.valid() || ::fstat(opened.fd.get(), &status) != 0) {
    return fail_errno("could not open " + path + " of result " + id);
  }
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  return opened;
}

// Renamed first, so that a crash in between leaves nothing that looks whole.
Result<void> ResultStore::remove(const std::string& id) {
  if (results_.erase(id) == 0) return fail(ErrorCode::kNotFound, "no result " + id);
  const std::string doomed = ".removed-" + id;
  if (::renameat(directory_.get(), id.c_str(), directory_.get(), doomed.c_str()) != 0) {
    return fail_errno("could not remove result " + id);
  }
  return remove_tree(directory_.get(), doomed);
}

void ResultStore::expire() {
  std::vector<std::string> over;
  for (const auto& [id, kept] : results_) {
    if (kept.deadline && *kept.deadline <= std::chrono::steady_clock::now()) over.push_back(id);
  }
  for (const std::string& id : over) {
    if (Result<void> removed = remove(id); !removed) spdlog::warn("{}", removed.error().message);
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

Result<void> ResultStore::load() {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return fail_errno("could not list " + path_, error.value());
  for (const std::string& name : names) {
    if (name.starts_with('.')) {  // not renamed into place, or on its way out
      if (Result<void> removed = remove_tree(directory_.get(), name); !removed) return removed;
      continue;
    }
    if (Result<StoredResult> result = load_one(name)) {
      adopt(std::move(*result));
    } else {
      spdlog::warn("result {} is left alone: {}", name, result.error().message);
    }
  }
  return {};
}

Result<StoredResult> ResultStore::load_one(const std::string& id) const {
  const Result<std::string> meta = read_beneath(directory_.get(), id + "/" + kMetaFile);
  if (!meta) return meta.error();
  const Result<std::string> json = read_beneath(directory_.get(), id + "/" + kSummaryFile);
  if (!json) return json.error();
  Result<SessionSummary> summary = parse_session_summary(*json);
  if (!summary) return summary.error();
  try {
    StoredResult result = decode_meta(*meta);
    result.info.result = id;
    result.info.summary = std::move(*summary);
    return result;
  } catch (const boost::system::system_error& problem) {
    return fail(ErrorCode::kMalformed, std::string(kMetaFile) + ": " + problem.code().message());
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kMalformed, std::string(kMetaFile) + ": " + problem.what());
  }
}

}  // namespace profd
