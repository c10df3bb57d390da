// A profile of the next seconds as one answer, as net/http/pprof of Go has it: a session of all
// processes that the caller may profile, whose result is one file with names. On the io thread.

#pragma once

#include <chrono>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "daemon/control/service.h"
#include "formats/base/result.h"

namespace profd {

// The query of GET /debug/pprof/profile: "seconds=10", or empty for 30 s. kInvalidArgument: another
// one, or not 1 to 600 seconds.
[[nodiscard]] Result<std::chrono::seconds> parse_profile_query(std::string_view query);

// Returns after that time, or when the profile is no longer wanted. Nothing of the session remains,
// except for the open file.
[[nodiscard]] boost::asio::awaitable<Result<OpenedFile>> profile_host(Service& service,
                                                                      Caller caller,
                                                                      std::chrono::seconds time,
                                                                      IsWanted is_wanted);

}  // namespace profd
