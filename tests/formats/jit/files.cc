#include "tests/formats/jit/files.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/formats/readers.h"

namespace profd::test {

std::string data_file(const std::string& name) {
  return read_file(std::string(FORMATS_TEST_DATA) + "/jit/" + name);
}

std::uint64_t ReadJitDump::all_malformed() const {
  return std::accumulate(malformed.begin(), malformed.end(), std::uint64_t{0});
}

std::vector<std::string> ReadJitDump::names() const {
  std::vector<std::string> names;
  for (const JitDumpEvent& event : events) {
    if (event.kind == JitDumpEventKind::kLoad) names.emplace_back(event.name);
  }
  return names;
}

ReadJitDump read_growing(std::string_view file, std::size_t step, std::size_t read_bytes) {
  ReadJitDump all;
  for (std::size_t size = std::min(step, file.size());;) {
    const std::uint64_t before = all.state.offset;
    const std::string_view there = file.substr(0, size);
    const std::string_view rest = there.substr(std::min<std::size_t>(before, there.size()));
    const auto read = read_jitdump(rest.substr(0, read_bytes), size, all.state);
    if (!read) {
      ADD_FAILURE() << read.error().message;
      return all;
    }
    all.events.insert(all.events.end(), read->events.begin(), read->events.end());
    for (std::size_t i = 0; i < kJitDumpFaults; ++i) all.malformed[i] += read->malformed[i];
    if (all.state.offset != before) continue;
    if (size == file.size()) return all;
    size = std::min(size + step, file.size());
  }
}

ReadJitDump read_whole(std::string_view file) {
  return read_growing(file, file.size(), file.size());
}

std::string_view part_of(std::string_view file, const JitFileRange& range) {
  return file.substr(range.offset, range.bytes);
}

}  // namespace profd::test
