// Runtimes that make or interpret code, and by which switch each tells what code it made.
//
// Known by the names of the files that they map as code. docs/jit.md tells what each switch gives.

#pragma once

#include <string_view>

namespace profd {

struct Runtime {
  std::string_view name;         // "Node.js"
  std::string_view file_prefix;  // how the name of one of its files begins
  bool makes_code = false;       // else its functions are the interpreter's
  std::string_view remedy;       // what makes it name its functions; empty: nothing does
};

// By its name. Null: none is called so.
[[nodiscard]] const Runtime* runtime_of_name(std::string_view name);

// By the path of a file that a process has mapped as code. Null: of no runtime that is known.
[[nodiscard]] const Runtime* runtime_of_file(std::string_view path);

}  // namespace profd
