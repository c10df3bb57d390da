// Errors as values: what every operation that input, the system or a user can make fail returns.
//
// One alias, so that moving to std::expected later changes this file alone. Boost's type has no
// value_or; test with `if (!r)`, read with `*r` or `r.error()`. Return an error by `return
// fail(ErrorCode::io, "...")`.

#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

namespace profd {

// What kind of failure it is, from the user's side. docs/api.md has the HTTP status and profctl(1)
// the exit code of each.
enum class ErrorCode {
  kInvalidArgument,   // the request makes no sense as given
  kNotFound,          // no such process, session or file
  kPermissionDenied,  // the caller or the daemon may not
  kUnsupported,       // the host lacks a feature
  kUnavailable,       // the other side does not answer
  kMalformed,         // bytes that are not of the format they claim
  kTooLarge,          // over a limit that the message names
  kTimeout,           // over a time limit
  kBusy,              // in use by someone else
  kIo,                // the system refused an operation
  kInternal,          // our own mistake
};

// One cause and, where there is one, one thing to do about it. Both are whole phrases without a
// final full stop.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint;
};

template <class T>
using Result = boost::system::result<T, Error>;

[[nodiscard]] inline Error fail(ErrorCode code, std::string message, std::string hint = {}) {
  return Error{code, std::move(message), std::move(hint)};
}

// "could not open /x: Permission denied", from errno as it stands. The code follows errno where
// that says it plainly.
[[nodiscard]] Error fail_errno(const std::string& what);
[[nodiscard]] Error fail_errno(const std::string& what, int error);

// Called by Result<T>::value() on an error; ours to define for a custom error type. Only start-up
// code uses value().
[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace profd
