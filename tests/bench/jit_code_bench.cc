// JIT code of a large program: 137,490 functions and 102 MB of code, as node compiled from 45,000
// functions. The limits are 0.15 s for a parse and 0.5 s for an image of all functions (a hundredth
// of that for those that samples hit).

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "formats/jit/code_index.h"
#include "formats/jit/image.h"
#include "formats/jit/jitdump_reader.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd {
namespace {

constexpr std::size_t kFunctions = 137'490;
constexpr std::uint64_t kRegion = 0x7f0000000000;
constexpr std::size_t kReadBytes = std::size_t{4} << 20;

// A jitdump as V8 writes it, with unwinding and debug info before each LOAD. `region` is the size
// of the memory for code; its addresses are reused where it is smaller than the code.
std::string dump_of(std::size_t functions, std::uint64_t region) {
  std::mt19937_64 random(7);  // NOLINT: the same every time
  JitDumpWriter writer;
  writer.header({.pad = 0xdeadbeef, .pid = 1});
  const std::string hdr("\x01\x1b\x03\x3b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < functions; ++i) {
    const std::string name = "JS:~function" + std::to_string(i) +
                             " /srv/app/module.js:" + std::to_string(i % 9000) + ":11";
    const std::string code(64 + random() % 1376, '\x90');
    const std::uint64_t address = kRegion + at;
    at = (at + code.size() + 63) / 64 * 64 % region;
    writer.unwinding_info(1000 + i, hdr, hdr.size(), 0);
    std::vector<JitDumpLine> lines;
    for (std::uint64_t line = 0; line < 4; ++line) {
      lines.push_back({address + 0x40 + line * 16, static_cast<std::uint32_t>(i % 9000 + line), 1,
                       "/srv/app/module.js"});
    }
    writer.debug_info(1000 + i, address, lines);
    writer.load({.timestamp = 1000 + i,
                 .pid = 1,
                 .tid = 1,
                 .address = address,
                 .code_index = i,
                 .name = name,
                 .code = code});
  }
  return writer.take();
}

const std::string& large_dump() {
  static const std::string dump = dump_of(kFunctions, std::uint64_t{1} << 40);
  return dump;
}

// What the parser's child does, except for reading the file.
JitDumpState parse(std::string_view dump, std::vector<JitDumpEvent>& loads) {
  JitDumpState state;
  while (state.offset < dump.size()) {
    const auto events = read_jitdump(dump.substr(state.offset, kReadBytes), dump.size(), state);
    loads.insert(loads.end(), events->events.begin(), events->events.end());
  }
  return state;
}

JitCode code_of(const JitDumpEvent& load) {
  JitCode code;
  code.address = load.address;
  code.bytes = load.code_bytes;
  code.born_ns = load.timestamp;
  code.name = load.name;
  code.code = load.code;
  code.debug_info = load.debug_info;
  return code;
}

void BM_ParseJitDump(benchmark::State& state) {
  const std::string& dump = large_dump();
  std::vector<JitDumpEvent> loads;
  for (auto _ : state) {
    loads.clear();
    parse(dump, loads);
  }
  state.counters["functions"] = static_cast<double>(loads.size());
  state.counters["MB"] = static_cast<double>(dump.size()) / 1e6;
}
BENCHMARK(BM_ParseJitDump)->Unit(benchmark::kMillisecond);

void BM_ParseAndIndexJitDump(benchmark::State& state) {
  const std::string& dump = large_dump();
  std::size_t bytes = 0;
  for (auto _ : state) {
    std::vector<JitDumpEvent> loads;
    parse(dump, loads);
    JitCodeIndex index;
    for (const JitDumpEvent& load : loads) index.add(code_of(load));
    bytes = index.memory_bytes();
  }
  state.counters["bytes_each"] = static_cast<double>(bytes) / kFunctions;
}
BENCHMARK(BM_ParseAndIndexJitDump)->Unit(benchmark::kMillisecond);

// Searches at any time in a region of 2 MB that is reused all the time.
void BM_FindInReusedCode(benchmark::State& state) {
  const std::string dump = dump_of(100'000, std::uint64_t{2} << 20);
  std::vector<JitDumpEvent> loads;
  parse(dump, loads);
  JitCodeIndex index;
  for (const JitDumpEvent& load : loads) index.add(code_of(load));
  std::mt19937_64 random(7);  // NOLINT: the same every time
  std::size_t named = 0;
  for (auto _ : state) {
    const auto found = index.at(kRegion + random() % (2 << 20), 1000 + random() % 100'000);
    named += found.has_value() ? 1U : 0U;
  }
  state.counters["named"] = static_cast<double>(named) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_FindInReusedCode);

// Every `state.range(0)`th function.
void BM_EncodeJitImage(benchmark::State& state) {
  const std::string& dump = large_dump();
  std::vector<JitDumpEvent> loads;
  const JitDumpState read = parse(dump, loads);
  std::size_t bytes = 0;
  for (auto _ : state) {
    JitImage image;
    image.files = {"/srv/app/module.js"};
    for (std::size_t i = 0; i < loads.size(); i += static_cast<std::size_t>(state.range(0))) {
      const JitDumpEvent& load = loads[i];
      JitImageFunction function{load.address,
                                load.code_bytes,
                                std::string(load.name),
                                dump.substr(load.code.offset, load.code.bytes),
                                {}};
      for (const JitLine& line : decode_jit_lines(
               std::string_view(dump).substr(load.debug_info.offset, load.debug_info.bytes), read,
               load.code_bytes))
        function.lines.push_back({line.code_offset, line.line, line.discriminator, 0});
      image.functions.push_back(std::move(function));
    }
    const JitImageLayout layout = lay_out_jit_image(image.functions);
    bytes = encode_jit_image(image, layout).bytes.size();
  }
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(BM_EncodeJitImage)->Arg(1)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
