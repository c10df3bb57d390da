// How unwinding by tables is set up.

#pragma once

#include <cstddef>
#include <string>

namespace profd {

class InterpretedCodes;
class UserRefusals;

struct UnwindingOptions {
  std::string cache_directory{};                  // of unwind tables; empty: there is no cache
  std::size_t max_bytes = std::size_t{40} << 20;  // of tables in the kernel
  UserRefusals* refusals = nullptr;               // gets files without a table; null: none does
  InterpretedCodes* codes = nullptr;              // as in SamplerOptions, which sets it
};

}  // namespace profd
