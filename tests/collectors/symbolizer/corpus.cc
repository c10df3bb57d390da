#include "tests/collectors/symbolizer/corpus.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include <stdlib.h>

#include "formats/elf/elf_file.h"

namespace profd::test {
namespace {

// What the program prints. It gets the addresses as its input, one a line.
std::vector<std::string> lines_of(const std::string& command,
                                  std::span<const std::uint64_t> addresses) {
  std::string input = std::filesystem::temp_directory_path() / "profd_addresses_XXXXXX";
  const UniqueFd file(::mkostemp(input.data(), O_CLOEXEC));
  std::ofstream out(input);
  for (const std::uint64_t address : addresses) out << "0x" << std::hex << address << '\n';
  out.close();
  std::FILE* const pipe = ::popen((command + " <" + input).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string text;
  char block[65536];
  for (std::size_t got = 0; (got = std::fread(block, 1, sizeof block, pipe)) > 0;) {
    text.append(block, got);
  }
  const bool ended_well = ::pclose(pipe) == 0;
  std::filesystem::remove(input);
  if (!ended_well) throw std::runtime_error("failed: " + command);
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "FILE:LINE", with "?" or 0 for what is not known.
OracleFrame frame_of(const std::string& function, std::string place) {
  OracleFrame frame;
  if (function != "??") frame.function = function;
  // addr2line: "FILE:LINE (discriminator 2)".
  if (const auto comment = place.find(" ("); comment != place.npos) place.resize(comment);
  const auto colon = place.rfind(':');
  frame.line = std::strtoul(place.c_str() + colon + 1, nullptr, 10);
  const std::string file = place.substr(0, colon);
  if (file != "??") frame.file = std::filesystem::path(file).lexically_normal();
  return frame;
}

void print(const OracleFrames& frames) {
  for (const OracleFrame& frame : frames) {
    std::printf("  %s %s:%lu\n", frame.function.c_str(), frame.file.c_str(), frame.line);
  }
  std::printf("  --\n");
}

}  // namespace

std::string corpus_path(const std::string& name) {
  return std::string(PROFD_SYMBOLIZER_CORPUS) + "/" + name;
}

UniqueFd open_for_reading(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::vector<std::uint64_t> random_addresses(const std::string& path, std::size_t count) {
  const UniqueFd file = open_for_reading(path);
  const auto elf = read_elf_summary(file.get());
  if (!elf) throw std::runtime_error(path + ": " + elf.error().message);
  const auto code = std::ranges::find_if(
      elf->segments, [](const ElfSegment& segment) { return (segment.flags & 1U) != 0; });
  if (code == elf->segments.end()) throw std::runtime_error(path + " has no code");
  std::mt19937_64 random(1);  // NOLINT: the same every time
  std::vector<std::uint64_t> addresses(count);
  for (std::uint64_t& address : addresses) address = code->vaddr + random() % code->file_bytes;
  return addresses;
}

std::vector<OracleFrames> frames_of_llvm(const std::string& path,
                                         std::span<const std::uint64_t> addresses) {
  const std::string command =
      "llvm-symbolizer-14 --inlines --no-demangle --functions=linkage --obj=" + path;
  std::vector<OracleFrames> all(1);
  std::string function;
  for (const std::string& line : lines_of(command, addresses)) {
    if (line.empty()) {
      all.emplace_back();
    } else if (function.empty()) {
      function = line;
    } else {
      all.back().push_back(frame_of(function, line.substr(0, line.rfind(':'))));  // no column
      function.clear();
    }
  }
  all.pop_back();
  return all;
}

std::vector<OracleFrames> frames_of_addr2line(const std::string& path,
                                              std::span<const std::uint64_t> addresses) {
  std::vector<OracleFrames> all;
  std::string function;
  for (const std::string& line : lines_of("addr2line -f -i -a -e " + path, addresses)) {
    if (line.starts_with("0x")) {
      all.emplace_back();
    } else if (function.empty()) {
      function = line;
    } else {
      all.back().push_back(frame_of(function, line));
      function.clear();
    }
  }
  return all;
}

OracleFrames as_oracle(const DwarfAddress& answer) {
  OracleFrames frames;
  for (const CodeFrame& frame : answer.names.frames) {
    frames.push_back({.function = frame.system_name,
                      .file = std::filesystem::path(frame.file).lexically_normal(),
                      .line = frame.line});
  }
  if (frames.empty()) {
    frames.push_back({.function = {},
                      .file = std::filesystem::path(answer.file).lexically_normal(),
                      .line = answer.line});
  }
  return frames;
}

double equal_share(const std::vector<DwarfAddress>& answers,
                   const std::vector<OracleFrames>& oracle) {
  if (answers.size() != oracle.size()) return 0;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const OracleFrames ours = as_oracle(answers[i]);
    if (ours == oracle[i]) {
      ++equal;
      continue;
    }
    if (i - equal >= 3) continue;
    std::printf("%lx: %s\n", answers[i].names.address,
                std::string(text_of(answers[i].loss)).c_str());
    print(ours);
    print(oracle[i]);
  }
  return static_cast<double>(equal) / static_cast<double>(answers.size());
}

}  // namespace profd::test
