#include "formats/jit/code_index.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "formats/jit/forgetting.h"
#include "formats/jit/generations.h"

namespace profd {
namespace {

// How many forks' layers a look-up goes through before they are copied into one.
constexpr std::size_t kMaxShared = 4;

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// How far before `place` a range starts; 0 where it doesn't fit.
std::uint32_t distance_back(const JitFileRange& range, std::uint64_t place) {
  if (range.bytes == 0 || range.offset >= place) return 0;
  const std::uint64_t back = place - range.offset;
  return back <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(back) : 0;
}

JitFileRange range_back(std::uint64_t place, std::uint32_t back, std::uint32_t bytes) {
  return back == 0 ? JitFileRange{} : JitFileRange{place - back, bytes};
}

JitGeneration generation_of(const JitCode& code, std::uint64_t serial) {
  JitGeneration made;
  made.address = code.address;
  made.bytes = code.bytes;
  made.born_ns = code.born_ns;
  made.serial = serial;
  made.source = code.source;
  made.has_code = code.code.bytes > 0;
  made.code_offset = code.code.offset;
  const std::uint64_t place = code.code.offset;
  made.debug_info_back = distance_back(code.debug_info, place);
  made.debug_info_bytes = static_cast<std::uint32_t>(code.debug_info.bytes);
  made.unwinding_back = distance_back(code.unwinding_info, place);
  made.unwinding_bytes = static_cast<std::uint32_t>(code.unwinding_info.bytes);
  return made;
}

JitCode code_of(const JitGeneration& generation, std::string_view name) {
  JitCode code;
  code.address = generation.address;
  code.bytes = generation.bytes;
  code.born_ns = generation.born_ns;
  code.serial = generation.serial;
  code.source = generation.source;
  code.name = name;
  const std::uint64_t place = generation.code_offset;
  code.code = {place, generation.has_code ? generation.bytes : 0};
  code.debug_info = range_back(place, generation.debug_info_back, generation.debug_info_bytes);
  code.unwinding_info = range_back(place, generation.unwinding_back, generation.unwinding_bytes);
  return code;
}

std::unique_ptr<JitGenerations> copy_of(const std::vector<JitLayerRow>& rows) {
  auto copy = std::make_unique<JitGenerations>();
  for (const auto& [generation, layer] : rows) {
    JitGeneration row = *generation;
    row.was_asked_for = 0;
    (void)copy->add(row, layer->name_of(*generation));  // the oldest first: none is late
  }
  return copy;
}

}  // namespace

std::string_view name_of(JitCodeLoss loss) {
  constexpr std::array<std::string_view, kJitCodeLosses> kNames{"forgotten", "unknown-move"};
  return kNames[static_cast<std::size_t>(loss)];
}

JitCodeIndex::JitCodeIndex(const JitCodeLimits& limits)
    : limits_(limits), own_(std::make_unique<JitGenerations>()) {}
JitCodeIndex::JitCodeIndex(JitCodeIndex&&) noexcept = default;
JitCodeIndex& JitCodeIndex::operator=(JitCodeIndex&&) noexcept = default;
JitCodeIndex::~JitCodeIndex() = default;

void JitCodeIndex::add(const JitCode& code) {
  if (code.bytes == 0 || code.bytes > jitdump::kMaxCodeBytes) return;
  if (code.born_ns < complete_since_ns_) {
    ++losses_[static_cast<std::size_t>(JitCodeLoss::kForgotten)];
    return;
  }
  const JitGeneration made = generation_of(code, next_serial_);
  const std::string_view name = code.name.substr(0, jitdump::kMaxNameBytes);
  if (is_told_again(made, name)) {
    ++merged_;
    return;
  }
  append(made, name);
}

void JitCodeIndex::append(const JitGeneration& generation, std::string_view name) {
  make_room(name.size());
  if (!own_->add(generation, name)) ++losses_[static_cast<std::size_t>(JitCodeLoss::kForgotten)];
  ++next_serial_;
}

void JitCodeIndex::make_room(std::size_t name_bytes) {
  std::size_t rows = own_->rows().size() + 1;
  std::size_t names = own_->name_bytes() + name_bytes;
  for (const auto& layer : shared_) {
    rows += layer->rows().size();
    names += layer->name_bytes();
  }
  if (rows <= limits_.generations && names <= limits_.name_bytes) return;
  const JitRemembered left = forget_oldest(by_age());
  losses_[static_cast<std::size_t>(JitCodeLoss::kForgotten)] += rows - 1 - left.rows.size();
  complete_since_ns_ = std::max(complete_since_ns_, left.complete_since_ns);
  own_ = copy_of(left.rows);
  shared_.clear();
}

// All rows, the oldest first.
std::vector<JitLayerRow> JitCodeIndex::by_age() const {
  std::vector<JitLayerRow> all;
  const auto add_layer = [&](const JitGenerations& layer) {
    for (const JitGeneration& row : layer.rows()) all.push_back({&row, &layer});
  };
  for (const auto& layer : shared_) add_layer(*layer);
  add_layer(*own_);
  std::ranges::sort(all, [](const JitLayerRow& a, const JitLayerRow& b) {
    return a.generation->is_older_than(*b.generation);
  });
  return all;
}

// Whether the code lies there already, and nothing came over it since.
bool JitCodeIndex::is_told_again(const JitGeneration& made, std::string_view name) const {
  const auto [known, layer] = youngest(made.address, kForever);
  if (known == nullptr || known->is_function == 0 || known->address != made.address ||
      known->bytes != made.bytes || made.born_ns < known->born_ns ||
      made.has_code > known->has_code || layer->name_of(*known) != name)
    return false;
  const JitGeneration& there = *known;
  return !own_->is_overlaid(there) &&
         std::ranges::none_of(shared_, [&](const auto& s) { return s->is_overlaid(there); });
}

void JitCodeIndex::move(std::uint64_t from, std::uint64_t to, std::uint64_t time_ns) {
  const auto [known, layer] = youngest(from, time_ns);
  if (known == nullptr || known->is_function == 0 || known->address != from) {
    ++losses_[static_cast<std::size_t>(JitCodeLoss::kUnknownMove)];
    return;
  }
  JitGeneration moved = *known;
  const std::string name(layer->name_of(*known));
  end(from, moved.bytes, time_ns);
  moved.address = to;
  moved.born_ns = time_ns;
  moved.serial = next_serial_;
  append(moved, name);
}

void JitCodeIndex::end(std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns) {
  if (bytes == 0) return;
  JitGeneration nothing;
  nothing.address = address;
  nothing.bytes = bytes;
  nothing.born_ns = time_ns;
  nothing.serial = next_serial_;
  nothing.is_function = 0;
  append(nothing, {});
}

void JitCodeIndex::seen_until(std::uint64_t time_ns) {
  seen_until_ns_ = std::max(seen_until_ns_, time_ns);
}

JitLayerRow JitCodeIndex::youngest(std::uint64_t address, std::uint64_t time_ns) const {
  JitLayerRow found{own_->youngest(address, time_ns, nullptr), own_.get()};
  for (const auto& layer : shared_) {
    const JitGeneration* other = layer->youngest(address, time_ns, found.generation);
    if (other != nullptr) found = {other, layer.get()};
  }
  return found;
}

JitLayerRow JitCodeIndex::earliest_after(std::uint64_t address, std::uint64_t time_ns) const {
  JitLayerRow found{own_->earliest_after(address, time_ns, nullptr), own_.get()};
  for (const auto& layer : shared_) {
    const JitGeneration* other = layer->earliest_after(address, time_ns, found.generation);
    if (other != nullptr) found = {other, layer.get()};
  }
  return found;
}

std::optional<JitCode> JitCodeIndex::at(std::uint64_t address, std::uint64_t time_ns) const {
  JitLayerRow found = youngest(address, std::max(time_ns, complete_since_ns_));
  const bool lived = found.generation != nullptr && found.generation->is_function != 0;
  if (complete_since_ns_ > 0) {
    // What was forgotten may have lived there before; only what did all the time since is known.
    if (!lived || found.generation->born_ns > time_ns) return std::nullopt;
  } else if (!lived) {
    found = earliest_after(address, time_ns);
  }
  if (found.generation == nullptr) return std::nullopt;
  found.generation->was_asked_for = 1;
  return code_of(*found.generation, found.layer->name_of(*found.generation));
}

std::optional<JitCode> JitCodeIndex::successor_of(const JitCode& known, std::uint64_t address,
                                                  std::uint64_t time_ns) const {
  const JitLayerRow newest = youngest(address, time_ns);
  if (newest.generation == nullptr || newest.generation->is_function == 0 ||
      newest.generation->born_ns < std::max(known.born_ns, complete_since_ns_)) {
    return std::nullopt;
  }
  const auto tells = [&](const JitGenerations& layer) {
    return layer.told_before(*newest.generation, known.address, known.bytes, known.name);
  };
  const bool is_told =
      tells(*own_) || std::ranges::any_of(shared_, [&](const auto& s) { return tells(*s); });
  if (!is_told) return std::nullopt;
  newest.generation->was_asked_for = 1;
  return code_of(*newest.generation, newest.layer->name_of(*newest.generation));
}

bool JitCodeIndex::is_bare_since(std::uint64_t address, std::uint64_t bytes,
                                 std::uint64_t time_ns) const {
  JitGeneration range;
  range.address = address;
  range.bytes = bytes;
  range.born_ns = time_ns;
  range.serial = kForever;
  return !own_->is_overlaid(range) &&
         std::ranges::none_of(shared_, [&](const auto& s) { return s->is_overlaid(range); });
}

bool JitCodeIndex::knows(std::uint64_t address) const {
  const JitLayerRow newest = youngest(address, kForever);
  return newest.generation != nullptr &&
         (newest.generation->is_function != 0 || earliest_after(address, 0).generation != nullptr);
}

JitCodeIndex JitCodeIndex::fork() {
  if (!own_->rows().empty())
    shared_.push_back(std::exchange(own_, std::make_unique<JitGenerations>()));
  if (shared_.size() > kMaxShared) shared_.assign(1, copy_of(by_age()));
  JitCodeIndex child(limits_);
  child.shared_ = shared_;
  child.next_serial_ = next_serial_;
  child.seen_until_ns_ = seen_until_ns_;
  child.complete_since_ns_ = complete_since_ns_;
  child.losses_ = losses_;
  return child;
}

std::size_t JitCodeIndex::functions() const {
  std::size_t count = own_->functions();
  for (const auto& layer : shared_) count += layer->functions();
  return count;
}

std::size_t JitCodeIndex::memory_bytes() const {
  std::size_t bytes = own_->memory_bytes();
  for (const auto& layer : shared_) bytes += layer->memory_bytes();
  return bytes;
}

}  // namespace profd
