// Errors as values: the result of every operation that can fail because of input, the system or a
// user.
//
// Result is an alias, so that a change to std::expected changes this file alone. Boost's type has
// no value_or; test with `if (!r)`, read with `*r` or `r.error()`. Return an error with `return
// fail(ErrorCode::kIo, "...")`.

#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

namespace profd {

// The kind of a failure as a user sees it. docs/api.md has the HTTP status of each kind, and
// profctl(1) the exit code.
enum class ErrorCode {
  kInvalidArgument,   // the request makes no sense as given
  kNotFound,          // no such process, session or file
  kPermissionDenied,  // the caller or the daemon has no permission
  kUnsupported,       // the host lacks a feature
  kUnavailable,       // the other side does not answer
  kMalformed,         // the bytes do not have the format that they claim
  kTooLarge,          // over a limit that the message names
  kTimeout,           // over a time limit
  kBusy,              // in use by another process
  kIo,                // the system refused an operation
  kInternal,          // a bug in profd
};

// One cause and, if there is one, one remedy. Both are whole phrases without a final full stop:
// "could not read /x: Permission denied", "run profctl as root".
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

// "could not open /x: Permission denied" from "could not open /x" and the current errno. An errno
// with a plain meaning selects the code.
[[nodiscard]] Error fail_errno(const std::string& what);
[[nodiscard]] Error fail_errno(const std::string& what, int error);

// Result<T>::value() calls this on an error; Boost requires it for a custom error type. Only
// start-up code uses value().
[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace profd
