// A client of debuginfod servers, by libdebuginfod. It keeps what it downloads in the caller's own
// cache of that library (~/.cache/debuginfod_client), which gdb and others share.
//
// The library is loaded when it is needed: linked, it and libcurl would add 6 ms of CPU time to
// each start of profctl.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct debuginfod_client;

namespace profd {

class Debuginfod {
 public:
  struct Options {
    std::string urls;  // with blanks between them; empty: DEBUGINFOD_URLS
    std::uint64_t max_bytes = 0;
    std::chrono::seconds max_time{};             // of one download
    const char* library = "libdebuginfod.so.1";  // another one in tests
  };
  // Called while a file is downloaded, with its bytes so far and in all; 0: not known.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

  // Sets the variables of the environment that the library reads. kInvalidArgument: no server is
  // named; kUnsupported: the library is not installed.
  static Result<Debuginfod> open(const Options& options, Progress progress);

  // The debug file, open for reading. kNotFound: no server has it; kTooLarge; kTimeout; kIo.
  [[nodiscard]] Result<UniqueFd> find(const std::string& build_id);

 private:
  struct End {
    void operator()(debuginfod_client* client) const;
  };

  Debuginfod() = default;

  std::unique_ptr<debuginfod_client, End> client_;
  std::unique_ptr<Progress> progress_;  // the library has its address
};

}  // namespace profd
