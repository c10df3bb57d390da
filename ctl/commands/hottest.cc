#include "ctl/commands/hottest.h"

#include <algorithm>
#include <ostream>
#include <span>
#include <utility>

#include "ctl/output/text.h"
#include "ctl/sources/pprof_samples.h"
#include "ctl/views/idle.h"
#include "ctl/views/report.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

constexpr std::size_t kShownFunctions = 5;
constexpr std::size_t kNameColumns = 100;

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("._+-@/=:,").find(c) != std::string_view::npos;
}

// As a word of a shell.
std::string quoted(const std::string& path) {
  if (std::ranges::all_of(path, is_plain)) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string hottest_heading(const Samples& samples) {
  if (is_of_blocks(samples.time_kind)) {
    return "the functions with the most time " + std::string(kind_names(samples.time_kind).behind);
  }
  return std::string("the functions with the most ") +
         (samples.has_cpu_time ? "CPU time" : "samples") + " of their own";
}

void print_functions(const Samples& samples, const Console& console) {
  // Threads are off the CPU in the kernel: the functions that called it are those to look at.
  SelectionPatterns patterns;
  if (is_of_blocks(samples.time_kind)) patterns.hide = {"^\\[kernel"};
  const Selection selection(samples, patterns);
  const Report report = make_report(selection, {GroupKey::kFunction}, NameForm::kShort);
  if (report.rows.empty()) return;
  console.err << "profctl: " << hottest_heading(samples) << ":\n";
  const std::size_t shown = std::min(kShownFunctions, report.rows.size());
  for (const ReportRow& row : std::span(report.rows).first(shown)) {
    if (row.self == SampleValue()) break;
    const std::string share = percent_text(report.scope.share_of(row.self));
    const std::string name = printable_utf8(row.group.name, kMaxPrintableBytes);
    console.err << std::string(share.size() < 9 ? 9 - share.size() : 0, ' ') << share << "  "
                << end_that_fits(name, kNameColumns) << "\n";
  }
}

}  // namespace

void print_hottest(std::string_view packed, const std::string& path, const Console& console) {
  if (console.json) return;
  auto protobuf = unpack_pprof(packed);
  if (!protobuf) return;
  auto samples = samples_of_pprof(std::move(*protobuf));
  if (!samples || samples->rows().empty()) return;
  fold_idle(*samples);
  print_functions(*samples, console);
  if (path.empty()) return;
  console.err << "hint: profctl report " << printable(quoted(path))
              << " shows all, with --tree their callers\n";
}

}  // namespace profd
