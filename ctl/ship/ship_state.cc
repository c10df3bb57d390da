#include "ctl/ship/ship_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "formats/base/errors.h"
#include "formats/base/json_members.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr std::size_t kMaxStateBytes = std::size_t{64} << 10;

Error lock_error(const std::string& path) {
  if (errno != EWOULDBLOCK) return fail_errno("could not lock " + path);
  return fail(ErrorCode::kBusy, path + " is in use by another profctl ship",
              "end that one, or give another --state-dir");
}

using LossCounts = std::map<std::string, std::uint64_t>;

void subtract(LossCounts& counts, const LossCounts& start) {
  for (const auto& [reason, count] : start) counts[reason] -= count;
}

Result<ShipState> read_state(const std::string& text, const std::string& path) {
  auto state = parse_ship_state(text);
  if (state) return state;
  return fail(ErrorCode::kMalformed, path + " is malformed: " + state.error().message,
              "remove it to begin anew: windows of the last hour, or for Parca and OTLP of 47 "
              "hours, are then sent again");
}

}  // namespace

void members(auto& fields, Is<ShipState> auto& state) {
  fields.required("window", state.window)
      .required("in_flight", state.in_flight)
      .required("windows_sent", state.windows_sent)
      .required("windows_unknown", state.windows_unknown)
      .required("profiles_sent", state.profiles_sent)
      .required("bytes_sent", state.bytes_sent)
      .required("windows_dropped", state.windows_dropped)
      .required("profiles_dropped", state.profiles_dropped)
      .optional("bytes_dropped", state.bytes_dropped)  // older files have none
      .required("rows_dropped", state.rows_dropped)
      .required("services_other", state.services_other)
      .optional("series_joined", state.series_joined);  // the same
}

ShipState counted_since(const ShipState& start, ShipState now) {
  now.windows_sent -= start.windows_sent;
  now.windows_unknown -= start.windows_unknown;
  now.profiles_sent -= start.profiles_sent;
  now.bytes_sent -= start.bytes_sent;
  subtract(now.windows_dropped, start.windows_dropped);
  subtract(now.profiles_dropped, start.profiles_dropped);
  subtract(now.bytes_dropped, start.bytes_dropped);
  now.rows_dropped -= start.rows_dropped;
  now.services_other -= start.services_other;
  now.series_joined -= start.series_joined;
  return now;
}

std::string to_json(const ShipState& state) { return json_text(json_of(state)); }

Result<ShipState> parse_ship_state(std::string_view json) { return parse_as<ShipState>(json); }

Result<ShipStateFile> ShipStateFile::open(const std::string& directory,
                                          const std::string& endpoint) {
  ShipStateFile file;
  file.name_ = endpoint + ".json";
  file.path_ = directory + "/" + file.name_;
  file.directory_.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.directory_.valid()) return fail_errno("could not open " + directory);
  const std::string lock = endpoint + ".lock";
  file.lock_.reset(::openat(file.directory_.get(), lock.c_str(),
                            O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.lock_.valid()) return fail_errno("could not open " + directory + "/" + lock);
  if (::flock(file.lock_.get(), LOCK_EX | LOCK_NB) != 0) return lock_error(file.path_);
  const auto text = read_whole_file(file.name_, file.directory_.get(), kMaxStateBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return file;
  if (!text) return text.error();
  auto state = read_state(*text, file.path_);
  if (!state) return state.error();
  file.state_ = std::move(*state);
  return file;
}

Result<void> ShipStateFile::store(ShipState state) {
  const std::string next = name_ + ".next";
  const UniqueFd fd(::openat(directory_.get(), next.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  const bool is_stored =
      fd.valid() && write_all(fd.get(), to_json(state) + "\n") && ::fsync(fd.get()) == 0 &&
      ::renameat(directory_.get(), next.c_str(), directory_.get(), name_.c_str()) == 0;
  if (!is_stored) {
    const int error = errno;
    (void)::unlinkat(directory_.get(), next.c_str(), 0);
    return fail_errno("could not write " + path_, error);
  }
  state_ = std::move(state);
  if (::fsync(directory_.get()) != 0) return fail_errno("could not sync the directory of " + path_);
  return {};
}

}  // namespace profd
