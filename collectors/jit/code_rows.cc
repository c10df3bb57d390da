#include "collectors/jit/code_rows.h"

#include <iterator>
#include <utility>

namespace profd {
namespace {

constexpr unsigned kAreaShift = 32;

std::uint32_t area_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address >> kAreaShift);
}
std::uint64_t within_area(std::uint64_t address) { return static_cast<std::uint32_t>(address); }

}  // namespace

void JitCodeRows::erase(std::uint64_t start, std::uint64_t end) {
  auto at = functions_.lower_bound(start);
  if (at != functions_.begin() && std::prev(at)->second.end > start) --at;
  while (at != functions_.end() && at->first < end) {
    rows_ -= at->second.rows.size();
    const auto area = areas_.find(area_of(at->first));
    if (--area->second == 0) areas_.erase(area);
    at = functions_.erase(at);
    ++changes_;
  }
}

bool JitCodeRows::set(const JitUnwindRows& function) {
  const std::uint32_t area = area_of(function.start);
  erase(function.start, function.end);
  const bool is_in_one_area = area == area_of(function.end);
  if (function.rows.empty() || rows_ + function.rows.size() > kMaxRows || !is_in_one_area) {
    return true;
  }
  if (areas_.size() >= kMaxAreas && !areas_.contains(area)) return false;
  rows_ += function.rows.size();
  ++areas_[area];
  functions_.emplace(function.start, function);
  ++changes_;
  return true;
}

void JitCodeRows::add_missing(const JitCodeRows& others) {
  for (const auto& [start, function] : others.functions_) {
    const auto after = functions_.lower_bound(function.end);
    const bool is_taken =
        after != functions_.begin() && std::prev(after)->second.end > function.start;
    if (!is_taken) (void)set(function);  // the areas of its own code map are counted
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
    const std::uint32_t area = area_of(at->first);
    UnwindTableWriter writer;
    for (; at != functions_.end() && area_of(at->first) == area; ++at) {
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
