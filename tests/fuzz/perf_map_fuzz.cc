// Reads any bytes as a perf map: a file that is read as it grows gives the same lines as one that
// is read at once.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/jit/perf_map.h"
#include "tests/fuzz/require.h"

namespace {

struct Read {
  std::vector<profd::PerfMapLine> lines;
  std::uint64_t bad_lines = 0;
};

Read read(std::string_view file, std::size_t step) {
  Read all;
  profd::PerfMapState state;
  for (std::size_t size = 0; size < file.size();) {
    size = std::min(size + step, file.size());
    const auto read =
        profd::read_perf_map(file.substr(state.read_from(), size - state.read_from()), state);
    require(!read.rewritten, "a file that is not rewritten is read as such");
    require(state.offset <= size, "no more is passed than there is");
    all.lines.insert(all.lines.end(), read.lines.begin(), read.lines.end());
    all.bad_lines += read.bad_lines;
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Read whole = read(file, std::max<std::size_t>(size, 1));
  const Read grown = read(file, 97);
  require(whole.lines == grown.lines, "equal lines");
  require(whole.bad_lines == grown.bad_lines, "equally many bad ones");
  for (const profd::PerfMapLine& line : whole.lines) {
    require(line.bytes > 0 && !line.name.empty(), "a line has a size and a name");
    require(line.name.find('\0') == line.name.npos, "a name has no NUL");
    require(line.name.size() <= profd::kMaxPerfMapNameBytes, "names are bounded");
  }
  return 0;
}
