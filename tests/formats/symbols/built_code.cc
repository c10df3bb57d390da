#include "tests/formats/symbols/built_code.h"

#include <fcntl.h>

#include <cstdio>
#include <sstream>

#include <gtest/gtest.h>

#include "formats/symbols/find_code_names.h"

namespace profd::test {

std::vector<ListedSymbol> list_code(const std::string& path, const std::string& options) {
  std::istringstream lines(
      output_of("nm -S --defined-only --without-symbol-versions " + options + " " + path));
  std::vector<ListedSymbol> symbols;
  for (std::string line; std::getline(lines, line);) {
    unsigned long long start = 0;
    unsigned long long bytes = 0;
    char type = 0;
    int name = 0;
    bool matched = std::sscanf(line.c_str(), "%llx %llx %c %n", &start, &bytes, &type, &name) == 3;
    if (!matched) {
      bytes = 0;
      matched = std::sscanf(line.c_str(), "%llx %c %n", &start, &type, &name) == 2;
    }
    if (matched && std::string_view("tTwWiI").find(type) != std::string_view::npos) {
      symbols.push_back({start, bytes, line.substr(static_cast<std::size_t>(name))});
    }
  }
  return symbols;
}

UniqueFd open_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  return fd;
}

std::vector<AddressNames> names_of(const std::string& path,
                                   const std::vector<std::uint64_t>& addresses,
                                   const std::string& debug_file) {
  const UniqueFd fd = open_file(path);
  const UniqueFd debug_fd = debug_file.empty() ? UniqueFd() : open_file(debug_file);
  SymbolBudget budget;
  auto names =
      find_code_names(fd.get(), debug_file.empty() ? -1 : debug_fd.get(), addresses, budget);
  EXPECT_TRUE(names) << path << ": " << names.error().message;
  if (!names) return {};
  EXPECT_EQ(names->size(), addresses.size());
  for (const AddressNames& answer : *names) EXPECT_TRUE(is_valid(answer)) << path;
  return std::move(*names);
}

AddressNames name_of(const std::string& path, std::uint64_t address,
                     const std::string& debug_file) {
  const auto names = names_of(path, {address}, debug_file);
  return names.empty() ? AddressNames{} : names[0];
}

std::string frames_text(const AddressNames& names) {
  std::string text;
  for (const CodeFrame& frame : names.frames) {
    text += (text.empty() ? "" : "< ") + frame.name + " ";
  }
  return text + "(" + std::string(text_of(names.source)) + ")";
}

std::string text_at(const std::string& path, std::uint64_t address, const std::string& debug_file) {
  return frames_text(name_of(path, address, debug_file));
}

std::string BuiltCode::build(const std::string& name, const std::string& source,
                             const std::string& command, const std::string& extension) {
  const std::string file = scratch_.write(name + "." + extension, source);
  run(command + " " + file + " -o " + name);
  return path(name);
}

void BuiltCode::run(const std::string& command) const {
  (void)output_of("cd " + scratch_.path().string() + " && " + command);
}

}  // namespace profd::test
