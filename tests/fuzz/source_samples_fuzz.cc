// Any file as a source of profctl: what is read has views whose sums are those of the samples, and
// is the same behind the wire of the sandbox.

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/sources/file_format.h"
#include "ctl/sources/folded_samples.h"
#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/samples_wire.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/report.h"
#include "ctl/views/view_json.h"
#include "ctl/views/view_text.h"
#include "ctl/web/session_timeline.h"
#include "ctl/web/timeline.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/sample_times.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::size_t kMaxFuzzedBytes = std::size_t{1} << 18;

using namespace profd;

void check_views(const Samples& samples) {
  const Selection selection(samples, {});
  const SampleValue all = samples.sum();
  for (const GroupKey key : {GroupKey::kProcess, GroupKey::kFunction, GroupKey::kLine}) {
    const Report report = make_report(selection, {key}, NameForm::kShort);
    SampleValue self;
    for (const ReportRow& row : report.rows) {
      require(row.total.samples <= all.samples, "no row is larger than all");
      self.add(row.self);
    }
    if (key == GroupKey::kProcess) require(self == all, "each sample is of one process");
    require(!report_text(report, {}, {.width = 40}).empty(), "a report has text");
    require(!to_json(report, 10).empty(), "a report has JSON");
  }
  CallTree tree = make_tree(selection, {});
  prune(tree, 50, 0);
  require(tree.nodes.size() <= 50, "the limit of nodes holds");
  require(!tree_text(tree, {}).empty(), "a tree has text");
}

void check(const Samples& samples) {
  check_views(samples);
  const std::string wire = encode_samples(samples);
  const auto decoded = decode_samples(wire);
  require(decoded.has_value(), "what was encoded decodes");
  require(decoded->sum() == samples.sum(), "equal sums");
  require(decoded->times().has_value() == samples.times().has_value(), "times stay");
}

// The windows and ranges of a heat map.
void check_times(Samples samples) {
  if (!samples.times()) return;
  const SampleValue all = samples.sum();
  std::uint64_t timed = 0;
  const std::vector<TimedWindow> windows = seconds_of_session(samples);
  require(windows.size() <= kMaxTicks / kTicksOfSecond, "the limit of windows holds");
  for (const TimedWindow& window : windows) {
    require(window.shares.samples ==
                std::accumulate(window.parts.begin(), window.parts.end(), std::uint64_t{0}),
            "a second has the samples of its parts");
    timed += window.shares.samples;
  }
  require(timed <= static_cast<std::uint64_t>(all.samples), "no sample has two times");
  (void)timeline_json(samples);
  if (windows.empty()) return;
  keep_range({.since_ms = windows.front().since_ms, .until_ms = windows.front().until_ms}, samples);
  require(static_cast<std::uint64_t>(samples.sum().samples) == windows.front().shares.samples,
          "a range has the samples of its windows");
  if (!samples.rows().empty()) check_views(samples);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  if (file.size() > kMaxFuzzedBytes) return 0;
  (void)format_of_file(file, false);
  if (const auto folded = samples_of_folded(file)) check(*folded);
  if (const auto wire = decode_samples(file)) check_views(*wire);
  if (auto times = decode_sample_times(file)) {
    const auto again = decode_sample_times(encode_sample_times(*times));
    require(again && *again == *times, "times come back");
  }
  auto protobuf = unpack_pprof(file, kMaxFuzzedBytes);
  if (!protobuf) return 0;
  auto samples = samples_of_pprof(std::move(*protobuf));
  if (!samples) return 0;
  check(*samples);
  check_times(std::move(*samples));
  return 0;
}
