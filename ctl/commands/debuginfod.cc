#include "ctl/commands/debuginfod.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <elfutils/debuginfod.h>

#include "formats/base/errors.h"

namespace profd {
namespace {

// The functions of libdebuginfod.
struct Library {
  decltype(&::debuginfod_begin) begin = nullptr;
  decltype(&::debuginfod_end) end = nullptr;
  decltype(&::debuginfod_find_debuginfo) find_debuginfo = nullptr;
  decltype(&::debuginfod_set_progressfn) set_progressfn = nullptr;
  decltype(&::debuginfod_set_user_data) set_user_data = nullptr;
  decltype(&::debuginfod_get_user_data) get_user_data = nullptr;
};
template <class Function>
bool find_function(const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

// Those of the library that load() has loaded; null: there is none.
Library loaded() {
  Library found;
  const bool has_all = find_function("debuginfod_begin", found.begin) &&
                       find_function("debuginfod_end", found.end) &&
                       find_function("debuginfod_find_debuginfo", found.find_debuginfo) &&
                       find_function("debuginfod_set_progressfn", found.set_progressfn) &&
                       find_function("debuginfod_set_user_data", found.set_user_data) &&
                       find_function("debuginfod_get_user_data", found.get_user_data);
  return has_all ? found : Library();
}

// For good, since libcurl keeps state of the process.
Result<void> load(const char* name) {
  if (::dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr && loaded().begin != nullptr) return {};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): profctl has one thread.
  const char* const why = ::dlerror();
  return fail(ErrorCode::kUnsupported,
              "could not load libdebuginfod: " + std::string(why != nullptr ? why : name),
              "install the package libdebuginfod1");
}

int report_progress(debuginfod_client* client, long done, long all) {
  const auto* const progress =
      static_cast<const Debuginfod::Progress*>(loaded().get_user_data(client));
  (*progress)(static_cast<std::uint64_t>(std::max(done, 0L)),
              static_cast<std::uint64_t>(std::max(all, 0L)));
  return 0;  // continue
}

void set_variable(const char* name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): profctl has one thread.
  (void)::setenv(name, value.c_str(), 1);
}

bool has_servers() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const urls = std::getenv(DEBUGINFOD_URLS_ENV_VAR);
  return urls != nullptr && *urls != '\0';
}

Error download_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOSYS:
      return fail(ErrorCode::kNotFound, "no server has it");
    case EFBIG:
      return fail(ErrorCode::kTooLarge, "it is larger than --max-size");
    case ETIME:
    case ETIMEDOUT:
      return fail(ErrorCode::kTimeout, "the download took too long");
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return fail(ErrorCode::kUnavailable, "no server answers");
    default:
      return fail_errno("the download failed", error);
  }
}

}  // namespace

void Debuginfod::End::operator()(debuginfod_client* client) const { loaded().end(client); }

Result<Debuginfod> Debuginfod::open(const Options& options, Progress progress) {
  if (!options.urls.empty()) set_variable(DEBUGINFOD_URLS_ENV_VAR, options.urls);
  if (!has_servers()) {
    return invalid_argument("no debuginfod server is named",
                            "give --url, for instance https://debuginfod.debian.net, or set "
                            "DEBUGINFOD_URLS");
  }
  if (auto ready = load(options.library); !ready) return ready.error();
  set_variable(DEBUGINFOD_MAXSIZE_ENV_VAR, std::to_string(options.max_bytes));
  set_variable(DEBUGINFOD_MAXTIME_ENV_VAR, std::to_string(options.max_time.count()));
  Debuginfod opened;
  opened.client_.reset(loaded().begin());
  if (!opened.client_) return fail(ErrorCode::kIo, "could not start libdebuginfod");
  opened.progress_ = std::make_unique<Progress>(std::move(progress));
  loaded().set_user_data(opened.client_.get(), opened.progress_.get());
  loaded().set_progressfn(opened.client_.get(), &report_progress);
  return opened;
}

Result<UniqueFd> Debuginfod::find(const std::string& build_id) {
  // A length of 0: hexadecimal digits.
  const int found = loaded().find_debuginfo(
      client_.get(), reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, nullptr);
  if (found < 0) return download_error(-found);
  return UniqueFd(found);
}

}  // namespace profd
