#include "ctl/ship/endpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "ctl/ship/transport/http_auth.h"
#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

Result<void> check_secret(const HttpAuth& auth) {
  const auto secret = read_authorization(auth);
  if (!secret) return secret.error();
  return {};
}

Result<void> check_pem_file(const std::string& path) {
  // A FIFO would keep the open waiting.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    const Error error = fail_errno("could not open " + path);
    return fail(error.code, error.message,
                "give a PEM file that the user of profctl ship can read");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode)) return {};
  return invalid_argument(path + " is no regular file", "give a PEM file");
}

Result<void> check_endpoint_file(const EndpointFile& named) {
  HttpAuth auth;
  if (named.key == "password_file") {
    auth.password_file = named.path;
    return check_secret(auth);
  }
  if (named.key == "bearer_token_file") {
    auth.bearer_token_file = named.path;
    return check_secret(auth);
  }
  return check_pem_file(named.path);
}

}  // namespace

std::vector<Error> errors_of_files(const std::vector<EndpointFile>& files) {
  std::vector<Error> errors;
  errors.reserve(files.size());
  for (const EndpointFile& named : files) {
    const auto usable = check_endpoint_file(named);
    if (usable) continue;
    const Error& error = usable.error();
    errors.push_back(invalid_argument(named.place + named.key + ": " + error.message, error.hint));
  }
  return errors;
}

}  // namespace profd
