// Programs and libraries that a test compiles, and what nm lists of them.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/base/unique_fd.h"
#include "formats/symbols/code_names.h"
#include "tests/formats/readers.h"

namespace profd::test {

struct ListedSymbol {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;  // 0: not given
  std::string name;         // without its version
};

// The functions and labels in the code of a file, as nm lists them.
[[nodiscard]] std::vector<ListedSymbol> list_code(const std::string& path,
                                                  const std::string& options = "");

[[nodiscard]] UniqueFd open_file(const std::string& path);

// find_code_names() without limits of a budget. A failure fails the test.
[[nodiscard]] std::vector<AddressNames> names_of(const std::string& path,
                                                 const std::vector<std::uint64_t>& addresses,
                                                 const std::string& debug_file = "");
[[nodiscard]] AddressNames name_of(const std::string& path, std::uint64_t address,
                                   const std::string& debug_file = "");
// The names of the frames and where they come from, as text: "inner < outer (symtab)", "(gap)".
[[nodiscard]] std::string frames_text(const AddressNames& names);
[[nodiscard]] std::string text_at(const std::string& path, std::uint64_t address,
                                  const std::string& debug_file = "");

// Compiles in a directory of its own.
class BuiltCode {
 public:
  // Runs `command` with the file of the source and "-o NAME". Returns the path of the result.
  std::string build(const std::string& name, const std::string& source, const std::string& command,
                    const std::string& extension = "c");
  // Runs `command` in the directory.
  void run(const std::string& command) const;
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }

 private:
  ScratchDirectory scratch_;
};

}  // namespace profd::test
