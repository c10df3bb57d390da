// What `profctl top` shows of a part of a session: its processes with their functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/output/terminal.h"
#include "ctl/views/report.h"
#include "ctl/views/samples.h"
#include "formats/api/session_summary.h"

namespace profd {

struct TopProcess {
  std::string name{};     // of GroupKey::kProcess; unique in a part
  std::uint32_t pid = 0;  // 0: unknown
  std::string comm{};
  std::string unit{};
  std::string container{};
  std::string user{};
  std::string runtime{};
  SampleValue value{};
  std::vector<ReportRow> functions{};
};

struct TopPart {
  ViewScope scope;
  SessionSummary summary{};
  std::vector<TopProcess> processes{};  // the busiest first
  std::vector<ReportRow> functions{};   // of all processes
};

[[nodiscard]] TopPart make_top_part(const Samples& samples, const SessionSummary& summary,
                                    NameForm names);

// "187 % CPU, 398 samples, 0 lost"; of blocks, with what is idle (idle.h).
[[nodiscard]] std::string top_sums_text(const TopPart& part);

// As text that stands for itself, with at most `rows` rows in each list.
[[nodiscard]] std::string top_text(const TopPart& part, std::size_t rows, const Screen& screen);

// In one line: docs/api.md, "JSON of profctl".
[[nodiscard]] std::string to_json(const TopPart& part, std::size_t rows);

// The tables of both. `marked`: the row with a mark; none for another number.
[[nodiscard]] std::string processes_table(const ViewScope& scope,
                                          const std::vector<TopProcess>& processes,
                                          std::size_t marked, const Screen& screen);
[[nodiscard]] std::string functions_table(const ViewScope& scope,
                                          const std::vector<ReportRow>& functions,
                                          std::size_t marked, const Screen& screen);
inline constexpr std::size_t kNoneMarked = static_cast<std::size_t>(-1);

}  // namespace profd
