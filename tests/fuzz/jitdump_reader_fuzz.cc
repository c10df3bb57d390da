// Reads any bytes as a jitdump: all ranges lie in the file, and a file that is read as it grows
// gives the same events as one that is read at once.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/jit/code_index.h"
#include "formats/jit/jitdump_reader.h"
#include "tests/fuzz/require.h"

namespace {

using profd::JitDumpEvent;
using profd::JitDumpEventKind;
using profd::JitFileRange;

struct Read {
  std::vector<JitDumpEvent> loads;
  std::array<std::uint64_t, profd::kJitDumpFaults> malformed{};
  profd::JitDumpState state;
};

std::string_view part_of(std::string_view file, const JitFileRange& range) {
  require(range.bytes <= file.size() && range.offset <= file.size() - range.bytes,
          "a range lies in the file");
  return file.substr(range.offset, range.bytes);
}

void check(std::string_view file, const JitDumpEvent& event, const profd::JitDumpState& state) {
  (void)part_of(file, event.code);
  require(event.name.size() <= profd::jitdump::kMaxNameBytes, "names are bounded");
  require(event.code_bytes <= profd::jitdump::kMaxCodeBytes, "sizes are bounded");
  std::uint64_t next = 0;
  for (const auto& line :
       profd::decode_jit_lines(part_of(file, event.debug_info), state, event.code_bytes,
                               profd::jit_script_of(event.name))) {
    require(line.code_offset >= next && line.code_offset < event.code_bytes,
            "lines are sorted and in the code");
    next = line.code_offset + std::uint64_t{1};
  }
  (void)profd::split_unwinding_info(part_of(file, event.unwinding_info), state);
}

// In steps of `step` bytes.
Read read(std::string_view file, std::size_t step) {
  Read all;
  for (std::size_t size = 0; size < file.size();) {
    size = std::min(size + step, file.size());
    const auto rest = file.substr(std::min<std::size_t>(all.state.offset, size));
    const auto events =
        profd::read_jitdump(rest.substr(0, size - (file.size() - rest.size())), size, all.state);
    if (!events) break;
    for (const JitDumpEvent& event : events->events) {
      check(file, event, all.state);
      if (event.kind == JitDumpEventKind::kLoad) all.loads.push_back(event);
    }
    for (std::size_t i = 0; i < all.malformed.size(); ++i) all.malformed[i] += events->malformed[i];
  }
  return all;
}

bool equal(const JitDumpEvent& a, const JitDumpEvent& b) {
  return a.name == b.name && a.address == b.address && a.code == b.code &&
         a.timestamp == b.timestamp && a.unwinding_info == b.unwinding_info;
}

void check_index(const std::vector<JitDumpEvent>& loads) {
  profd::JitCodeIndex index({.generations = 16, .name_bytes = 256});
  for (const JitDumpEvent& load : loads) {
    profd::JitCode code;
    code.address = load.address;
    code.bytes = load.code_bytes;
    code.born_ns = load.timestamp;
    code.name = load.name;
    index.add(code);
    const auto found = index.at(load.address, load.timestamp);
    if (!found) continue;
    require(load.address - found->address < found->bytes, "an answer covers its address");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Read whole = read(file, std::max<std::size_t>(size, 1));
  const Read grown = read(file, 97);
  require(std::ranges::equal(whole.loads, grown.loads, equal), "a growing file says the same");
  require(whole.malformed == grown.malformed, "and counts the same");
  require(whole.state.line_bias() == grown.state.line_bias(), "and is biased the same");
  check_index(whole.loads);
  return 0;
}
