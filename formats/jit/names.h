// What profiles say of code that a process made at run time: who made it, who names it, and how
// many samples lie in it. Part of session.json, and of what `profctl ps` shows.

#pragma once

#include <cstdint>
#include <string>

#include <boost/json/fwd.hpp>

#include "formats/base/result.h"

namespace profd {

struct JitNames {
  std::string runtime;              // "Node.js"; empty: none that is known
  std::string file;                 // that names it, as the process calls it; empty: none does
  std::uint64_t functions = 0;      // that are known of it, hit or not
  std::uint64_t samples = 0;        // whose innermost user frame lies in code made at run time
  std::uint64_t named_samples = 0;  // of these, those in a known function

  friend bool operator==(const JitNames&, const JitNames&) = default;
};

// Of two times, one after the other.
void add_later(const JitNames& later, JitNames& sum);

[[nodiscard]] boost::json::object jit_names_json(const JitNames& names);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, JitNames& out);

}  // namespace profd
