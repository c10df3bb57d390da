#include "collectors/jit/code_rows.h"

#include <memory>
#include <set>
#include <utility>

namespace profd {
namespace {

constexpr unsigned kAreaShift = 32;
// Functions that are destroyed at once.
constexpr std::size_t kFew = 64;

std::uint32_t area_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address >> kAreaShift);
}
std::uint64_t within_area(std::uint64_t address) { return static_cast<std::uint32_t>(address); }

// A function ends in the area in which it starts, so the last byte of an area has none.
JitFunctionBlocks::Functions functions_in(const JitFunctionBlocks& functions, std::uint32_t area) {
  const std::uint64_t start = std::uint64_t{area} << kAreaShift;
  return functions.find(start, start | within_area(~std::uint64_t{0}));
}

}  // namespace

bool JitForgottenRows::destroy_some() {
  for (std::size_t left = kSome; !functions_.empty();) {
    JitFunctionBlocks::Functions& last = functions_.back();
    if (last.size() > left) {
      last.erase(last.end() - static_cast<std::ptrdiff_t>(left), last.end());
      return false;
    }
    left -= last.size();
    functions_.pop_back();
  }
  return true;
}

void JitCodeRows::erase(std::uint64_t start, std::uint64_t end) {
  JitFunctionBlocks::Functions taken = functions_.take(start, end);
  for (const JitFunctionRows& function : taken) {
    rows_ -= function.rows().size();
    const auto area = areas_.find(area_of(function.start()));
    if (--area->second == 0) areas_.erase(area);
    ++changes_;
  }
  if (forgotten_ && taken.size() > kFew) forgotten_->add(std::move(taken));
}

bool JitCodeRows::set(const JitUnwindRows& function) {
  erase(function.start, function.end);
  return add(JitFunctionRows(function));
}

bool JitCodeRows::add(JitFunctionRows function) {
  const std::size_t rows = function.rows().size();
  const std::uint32_t area = area_of(function.start());
  const bool is_in_one_area = area == area_of(function.end());
  if (rows == 0 || rows_ + rows > kMaxRows || !is_in_one_area) return true;
  if (areas_.size() >= kMaxAreas && !areas_.contains(area)) return false;
  rows_ += rows;
  ++areas_[area];
  functions_.insert(std::move(function));
  ++changes_;
  return true;
}

JitCodeRows JitCodeRows::share() {
  JitCodeRows shared;
  shared.functions_ = functions_.share();
  shared.areas_ = areas_;
  shared.rows_ = rows_;
  shared.changes_ = changes_;
  return shared;
}

void JitCodeRows::add_missing(const JitCodeRows& others, std::uint32_t area) {
  for (JitFunctionRows& function : functions_in(others.functions_, area)) {
    const bool is_free = functions_.find(function.start(), function.end()).empty();
    if (is_free) (void)add(std::move(function));  // the areas of its own code map are counted
  }
}

std::size_t JitCodeRows::memory_bytes() const {
  // Of a function besides the value: the counts of its pointer, and free room in its block.
  constexpr std::size_t kBytes = 40;
  return functions_.size() * (sizeof(JitFunctionRows) + kBytes) + rows_ * sizeof(UnwindRow);
}

std::vector<std::uint32_t> JitCodeRows::areas() const {
  std::vector<std::uint32_t> areas;
  for (const auto& [area, functions] : areas_) areas.push_back(area);
  return areas;
}

Result<std::string> JitCodeRows::encode(std::uint32_t area) const {
  const JitFunctionBlocks::Functions functions = functions_in(functions_, area);
  UnwindTableWriter writer;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const JitFunctionRows& function = functions[i];
    for (const UnwindRow& row : function.rows()) {
      writer.add({.offset = within_area(row.offset), .rule = row.rule});
    }
    if (i + 1 == functions.size() || functions[i + 1].start() != function.end()) {
      writer.add({.offset = within_area(function.end()), .rule = {}});
    }
  }
  return writer.encode();
}

std::vector<std::uint32_t> JitRowsOfProcess::areas() const {
  std::set<std::uint32_t> areas;
  for (const JitCodeRows& layer : layers_) {
    for (const std::uint32_t area : layer.areas()) {
      if (areas.size() < JitCodeRows::kMaxAreas) areas.insert(area);
    }
  }
  return {areas.begin(), areas.end()};
}

Result<std::string> JitRowsOfProcess::encode(std::uint32_t area) const {
  JitCodeRows rows;
  for (const JitCodeRows& layer : layers_) rows.add_missing(layer, area);
  return rows.encode(area);
}

}  // namespace profd
