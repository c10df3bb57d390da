// Any bytes as an XRay trace: an error, or stacks whose sums are in order, with a timeline that is
// JSON; twice the same.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "formats/base/json_text.h"
#include "formats/xray/log.h"
#include "formats/xray/profile.h"
#include "formats/xray/trace.h"
#include "tests/fuzz/require.h"

namespace {

using profd::xray::CallTree;

struct Outcome {
  bool is_trace = false;
  profd::xray::Report report;
  std::string folded;
};

profd::xray::ByteSource source_file_of(std::string_view bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<char> to) -> std::size_t {
            if (offset >= bytes.size()) return 0;
            const std::string_view part = bytes.substr(offset, to.size());
            std::memcpy(to.data(), part.data(), part.size());
            return part.size();
          }};
}

void check_tree(const CallTree& tree) {
  for (CallTree::Index node = 0; node < tree.nodes().size(); ++node) {
    std::size_t steps = 0;
    for (auto at = node; at != tree.root(); at = tree.nodes()[at].parent) {
      require(++steps < tree.nodes().size(), "every node is below the root");
    }
  }
}

Outcome read(std::string_view bytes) {
  profd::xray::Log log;
  if (!log.add(source_file_of(bytes))) return {};
  log.sort();
  const auto name_of = [](std::uint32_t id) { return profd::xray::unknown_name(id); };
  std::string json;
  profd::xray::TraceWriter trace({log.first_ticks(), log.clock().ns_per_tick()}, name_of,
                                 [&json](std::string_view text) { json += text; });
  profd::xray::StacksOptions options;
  options.listener = &trace;
  options.max_nodes = 64;
  options.max_depth = 16;
  options.max_threads = 4;
  profd::xray::Stacks stacks(options);
  log.read(stacks);
  require(stacks.nodes() <= options.max_nodes + options.max_threads + 1, "the limit holds");
  const profd::xray::Measured measured = stacks.finish();
  trace.finish();
  check_tree(measured.tree);
  require(profd::parse_json(json, 8).has_value(), "a timeline is JSON");
  Outcome outcome{true, log.report(), {}};
  outcome.report.add(measured.report);
  require(outcome.report.bytes <= bytes.size(), "no byte is read twice");
  outcome.folded = profd::xray::make_folded(measured.tree, log.clock().ns_per_tick(),
                                            profd::xray::FoldedValue::kNanoseconds, name_of);
  (void)profd::xray::make_profiles(measured.tree, log.clock().ns_per_tick(), {});
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome first = read(bytes);
  const Outcome again = read(bytes);
  require(first.is_trace == again.is_trace && first.report == again.report &&
              first.folded == again.folded,
          "the same again");
  return 0;
}
