#include "formats/base/result.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace profd {
namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ESRCH:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    case EBUSY:
    case EADDRINUSE:
      return ErrorCode::kBusy;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

Error fail_errno(const std::string& what, int error) {
  return fail(code_of(error), what + ": " + std::strerror(error));
}

Error fail_errno(const std::string& what) { return fail_errno(what, errno); }

void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::runtime_error(error.message);
}

}  // namespace profd
