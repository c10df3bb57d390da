// How well the JIT code of one profile is named: its runtime, the file that names it, and how many
// samples have names. Part of session.json and of the answer that `profctl ps` shows.

#pragma once

#include <cstdint>
#include <string>

#include <boost/json/fwd.hpp>

#include "formats/base/result.h"

namespace profd {

struct JitNames {
  std::string runtime;              // "Node.js"; empty: an unknown one
  std::string file;                 // the jitdump or perf map, by the process's path; empty: none
  std::uint64_t functions = 0;      // known functions, whether or not a sample hit them
  std::uint64_t samples = 0;        // samples whose innermost user frame lies in JIT code
  std::uint64_t named_samples = 0;  // those of them in a known function
  std::uint64_t time_dropped = 0;   // samples that are named by another time than their own

  friend bool operator==(const JitNames&, const JitNames&) = default;
};

// Adds the names of a later period of the same process.
void add_later(const JitNames& later, JitNames& sum);

[[nodiscard]] boost::json::value json_of(const JitNames& names);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, JitNames& out);

}  // namespace profd
