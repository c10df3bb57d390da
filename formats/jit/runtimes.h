// Runtimes with a JIT compiler or an interpreter, and the switch by which each writes a JIT source,
// where it needs one.
//
// They are recognised by the names of the files that they map as code. docs/jit.md says what each
// switch gives.

#pragma once

#include <string>
#include <string_view>

namespace profd {

struct Runtime {
  std::string_view name;         // "Node.js"
  std::string_view file_prefix;  // of the name of one of its files
  bool has_jit = false;          // otherwise an interpreter runs its functions
  std::string_view remedy;       // how its functions get names; empty: not at all, or by is_named
  bool is_named = false;         // profd reads the names of its functions, without any switch
};

// The runtime with this name. Null: there is none.
[[nodiscard]] const Runtime* runtime_of_name(std::string_view name);

// The runtime whose file a process has mapped as code, by the file's path. Null: no known one.
[[nodiscard]] const Runtime* runtime_of_file(std::string_view path);

// The value of the label `runtime`: "nodejs" for "Node.js".
[[nodiscard]] std::string runtime_label(std::string_view name);

}  // namespace profd
