#include "tests/formats/readers.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

// "7  58.3%  58.3%   12 100.0% name": both readers' columns.
void add_row(const std::string& line, Report& report) {
  std::istringstream columns(line);
  Row row;
  std::string percent;
  std::string name;
  columns >> row.flat >> percent >> percent >> row.cumulative >> percent >> std::ws;
  if (columns.fail() || !percent.ends_with('%')) return;
  std::getline(columns, name);
  report.rows[name] = row;
}

Report parse_report(const std::string& text, const char* total_format) {
  Report report;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    unsigned long long total = 0;
    if (std::sscanf(line.c_str(), total_format, &total) == 1) report.total = total;
    add_row(line, report);
  }
  return report;
}

}  // namespace

ScratchDirectory::ScratchDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "formats_test.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path ScratchDirectory::write(const std::string& name,
                                              std::string_view bytes) const {
  std::ofstream(path_ / name, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path_ / name;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string output;
  char chunk[4096];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, pipe))
    output.append(chunk, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << output;
  return output;
}

Report go_report(const std::filesystem::path& profile) {
  return parse_report(
      output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                " -top -sample_index=samples -symbolize=local -nodecount=100000 -nodefraction=0"
                " -edgefraction=0 " +
                profile.string()),
      "Showing nodes accounting for %*[^ ] %*[^ ] of %llu total");
}

Report perl_report(const std::filesystem::path& profile) {
  return parse_report(
      output_of("google-pprof --text --nodefraction=0 --edgefraction=0 --nodecount=100000 "
                "/bin/true " +
                profile.string()),
      "Total: %llu samples");
}

std::map<std::string, std::uint64_t> nm_functions(const std::filesystem::path& file,
                                                  const std::string& options) {
  std::istringstream lines(output_of("nm " + options + " " + file.string()));
  std::map<std::string, std::uint64_t> functions;
  for (std::string line; std::getline(lines, line);) {
    unsigned long long address = 0;
    char type = 0;
    int name = 0;
    const int fields = std::sscanf(line.c_str(), "%llx %c %n", &address, &type, &name);
    if (fields == 2 && std::string_view("tTwWiI").find(type) != std::string_view::npos) {
      functions[line.substr(static_cast<std::size_t>(name))] = address;
    }
  }
  return functions;
}

}  // namespace profd::test
