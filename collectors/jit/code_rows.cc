#include "collectors/jit/code_rows.h"

#include <iterator>
#include <utility>

namespace profd {
namespace {

constexpr unsigned kAreaShift = 32;

std::uint64_t within_area(std::uint64_t address) { return static_cast<std::uint32_t>(address); }

}  // namespace

void JitCodeRows::erase(std::uint64_t start, std::uint64_t end) {
  auto at = functions_.lower_bound(start);
  if (at != functions_.begin() && std::prev(at)->second.end > start) --at;
  while (at != functions_.end() && at->first < end) {
    rows_ -= at->second.rows.size();
    at = functions_.erase(at);
    ++changes_;
  }
}

void JitCodeRows::set(const JitUnwindRows& function) {
  const bool is_in_one_area = function.start >> kAreaShift == function.end >> kAreaShift;
  erase(function.start, function.end);
  if (function.rows.empty() || rows_ + function.rows.size() > kMaxRows || !is_in_one_area) return;
  rows_ += function.rows.size();
  functions_.emplace(function.start, function);
  ++changes_;
}

void JitCodeRows::add_missing(const JitCodeRows& others) {
  for (const auto& [start, function] : others.functions_) {
    const auto after = functions_.lower_bound(function.end);
    const bool is_taken =
        after != functions_.begin() && std::prev(after)->second.end > function.start;
    if (!is_taken) set(function);
  }
}

std::size_t JitCodeRows::memory_bytes() const {
  constexpr std::size_t kNodeBytes = 32;  // of a std::map, besides the value
  return functions_.size() * (sizeof(decltype(functions_)::value_type) + kNodeBytes) +
         rows_ * sizeof(UnwindRow);
}

std::map<std::uint32_t, std::string> JitCodeRows::tables() const {
  std::map<std::uint32_t, std::string> tables;
  for (auto at = functions_.begin(); at != functions_.end();) {
    const auto area = static_cast<std::uint32_t>(at->first >> kAreaShift);
    UnwindTableWriter writer;
    for (; at != functions_.end() && at->first >> kAreaShift == area; ++at) {
      const JitUnwindRows& function = at->second;
      for (const UnwindRow& row : function.rows) {
        writer.add({.offset = within_area(row.offset), .rule = row.rule});
      }
      const auto next = std::next(at);
      if (next == functions_.end() || next->first != function.end) {
        writer.add({.offset = within_area(function.end), .rule = {}});
      }
    }
    if (auto encoded = writer.encode()) tables.emplace(area, std::move(*encoded));
  }
  return tables;
}

}  // namespace profd
