#include "ctl/views/samples.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

namespace profd {
namespace {

constexpr unsigned kVarintBits = 7;
constexpr unsigned char kMoreBytes = 0x80;

std::int64_t limited_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

void append_varint(std::uint64_t number, std::string& to) {
  for (; number >= kMoreBytes; number >>= kVarintBits) {
    to.push_back(static_cast<char>(number | kMoreBytes));
  }
  to.push_back(static_cast<char>(number));
}

std::vector<CountOfReason> sum_by_reason(const std::vector<CountOfReason>& a,
                                         const std::vector<CountOfReason>& b) {
  CountsByReason sum = by_reason(a);
  for (const CountOfReason& one : b) sum[one.reason] += one.count;
  return list_by_reason(sum);
}

}  // namespace

std::string_view name_of(FrameKind kind) {
  constexpr std::array<std::string_view, kFrameKinds> kNames = {"native", "kernel", "runtime",
                                                                "interpreted"};
  return kNames.at(static_cast<std::size_t>(kind));
}

SampleValue part_of(const SampleValue& value, std::int64_t samples) {
  if (value.samples == 0) return {};
  const auto cpu_ns = __extension__ static_cast<__int128>(value.cpu_ns) * samples / value.samples;
  const auto part_ns = static_cast<std::int64_t>(cpu_ns);
  const std::int64_t longest_ns = std::min(value.longest_ns, part_ns);
  return {.samples = samples, .cpu_ns = part_ns, .longest_ns = longest_ns};
}

void add_to(SeededHash& hash, const SampledFunction& function) {
  hash.add(std::uint64_t{function.name} << 32 | function.file);
  hash.add(std::uint64_t{function.object} << 8 | static_cast<std::uint64_t>(function.kind));
}

void add_to(SeededHash& hash, const SampledFrame& frame) {
  hash.add(std::uint64_t{frame.function} << 32 | frame.line);
}

void add_to(SeededHash& hash, const SampleLabels& labels) {
  hash.add(std::uint64_t{labels.pid} << 32 | labels.tid);
  hash.add(std::uint64_t{labels.comm} << 32 | labels.unit);
  hash.add(std::uint64_t{labels.container} << 32 | labels.user);
  hash.add(std::uint64_t{labels.runtime} << 32 | labels.thread);
  hash.add(std::uint64_t{labels.state} << 32 | labels.wait);
  hash.add(labels.ongoing);
}

void SampleValue::add(const SampleValue& other) {
  samples = limited_sum(samples, other.samples);
  cpu_ns = limited_sum(cpu_ns, other.cpu_ns);
  longest_ns = std::max(longest_ns, other.longest_ns);
}

void SampleLosses::add(const SampleLosses& other) {
  written += other.written;
  lost = sum_by_reason(lost, other.lost);
  user_samples += other.user_samples;
  incomplete = sum_by_reason(incomplete, other.incomplete);
}

CountsByReason by_reason(const std::vector<CountOfReason>& counts) {
  CountsByReason sums;
  for (const CountOfReason& one : counts) sums[one.reason] += one.count;
  return sums;
}

std::vector<CountOfReason> list_by_reason(const CountsByReason& counts) {
  std::vector<CountOfReason> list;
  list.reserve(counts.size());
  for (const auto& [reason, count] : counts) list.push_back({.reason = reason, .count = count});
  return list;
}

Samples::Samples()
    : texts_(random_seed()),
      functions_(random_seed()),
      frames_(random_seed()),
      labels_(random_seed()) {
  (void)add_text("");
}

std::uint32_t Samples::add_location(std::span<const SampledFrame> frames) {
  for (const SampledFrame& frame : frames) location_frames_.push_back(frames_.add(frame));
  location_ends_.push_back(location_frames_.size());
  return static_cast<std::uint32_t>(location_ends_.size() - 1);
}

void Samples::add(std::span<const std::uint32_t> stack, std::uint32_t labels,
                  const SampleValue& value) {
  std::string encoded;
  for (const std::uint32_t location : stack) append_varint(std::uint64_t{location} + 1, encoded);
  add_encoded(encoded, labels, value);
}

void Samples::add_encoded(std::string_view stack, std::uint32_t labels, const SampleValue& value) {
  const std::less_equal<> not_after;
  const bool is_kept = kept_ != nullptr && not_after(kept_->data(), stack.data()) &&
                       not_after(stack.data() + stack.size(), kept_->data() + kept_->size());
  if (!is_kept) stack = stacks_.add(stack);
  rows_.push_back({.stack = stack.data(),
                   .stack_bytes = static_cast<std::uint32_t>(stack.size()),
                   .labels = labels,
                   .value = value});
}

std::string_view Samples::keep(std::string bytes) {
  kept_ = std::make_unique<std::string>(std::move(bytes));
  return *kept_;
}

void Samples::keep_labels(const std::vector<bool>& is_kept) {
  std::vector<bool> rows;
  rows.reserve(rows_.size());
  for (const Row& row : rows_) rows.push_back(is_kept[row.labels]);
  keep_rows(rows);
}

void Samples::keep_rows(const std::vector<bool>& is_kept) {
  std::vector<std::uint32_t> places(rows_.size());
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    places[i] = kept;
    if (is_kept[i]) rows_[kept++] = rows_[i];
  }
  rows_.resize(kept);
  if (!times_) return;
  std::erase_if(times_->entries, [&](const SampleTime& time) { return !is_kept[time.sample]; });
  for (SampleTime& time : times_->entries) time.sample = places[time.sample];
}

bool Samples::set_times(SampleTimes times) {
  std::vector<std::int64_t> left;
  left.reserve(rows_.size());
  for (const Row& row : rows_) left.push_back(row.value.samples);
  times_.reset();
  for (const SampleTime& time : times.entries) {
    if (time.sample >= left.size() || (left[time.sample] -= time.count) < 0) return false;
  }
  times_ = std::move(times);
  return true;
}

void Samples::keep_ticks(std::uint32_t since, std::uint32_t until) {
  if (!times_) return;
  until = std::min(until, times_->until);
  since = std::min(since, until);
  auto& entries = times_->entries;
  std::erase_if(entries,
                [&](const SampleTime& time) { return time.tick < since || time.tick >= until; });
  std::vector<std::int64_t> counts(rows_.size());
  for (const SampleTime& time : entries) counts[time.sample] += time.count;
  std::vector<bool> is_kept;
  is_kept.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    is_kept.push_back(counts[i] != 0);
    rows_[i].value = part_of(rows_[i].value, counts[i]);
  }
  keep_rows(is_kept);
  constexpr std::int64_t kTickNs = std::int64_t{kTickMs} * 1'000'000;
  duration_ns = std::clamp<std::int64_t>(duration_ns - since * kTickNs, 0,
                                         std::int64_t{until - since} * kTickNs);
}

void Samples::read_locations(const Row& row, std::vector<std::uint32_t>& locations) const {
  locations.clear();
  for (std::string_view left = row.encoded(); !left.empty();) {
    locations.push_back(take_location(left));
  }
}

void Samples::read_stack(const Row& row, std::vector<std::uint32_t>& frames) const {
  frames.clear();
  for (std::string_view left = row.encoded(); !left.empty();) {
    for (const std::uint32_t frame : frames_of_location(take_location(left))) {
      frames.push_back(frame);
    }
  }
}

SampleValue Samples::sum() const {
  SampleValue sum;
  for (const Row& row : rows_) sum.add(row.value);
  return sum;
}

}  // namespace profd
