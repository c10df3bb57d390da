#include "formats/profile/sample_times.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::uint32_t>::max();

void append(std::uint32_t number, std::string& to) {
  protozero::write_varint(std::back_inserter(to), number);
}

// Throws protozero::exception where the bytes end.
class EntryReader {
 public:
  explicit EntryReader(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  [[nodiscard]] bool has_more() const { return at_ != end_; }
  [[nodiscard]] std::uint64_t number() { return protozero::decode_varint(&at_, end_); }

  // False: a number is out of its range.
  [[nodiscard]] bool read(SampleTime& last) {
    const bool is_first = last.count == 0;
    const std::uint64_t sample = number();
    const std::uint64_t tick = number();
    const std::uint64_t count = number();
    if (sample > kMaxNumber - last.sample || tick >= kMaxTicks) return false;
    const bool is_same = sample == 0 && !is_first;
    const std::uint64_t after = is_same ? last.tick : 0;
    if (is_same && tick == 0) return false;
    if (after + tick >= kMaxTicks || count == 0 || count > kMaxNumber) return false;
    last = {.sample = static_cast<std::uint32_t>(last.sample + sample),
            .tick = static_cast<std::uint32_t>(after + tick),
            .count = static_cast<std::uint32_t>(count)};
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

Result<SampleTimes> decode(EntryReader reader) {
  SampleTimes times;
  const std::uint64_t until = reader.number();
  if (until > kMaxTicks) return malformed("the times of its samples end too late");
  times.until = static_cast<std::uint32_t>(until);
  SampleTime last{.count = 0};
  while (reader.has_more()) {
    if (times.entries.size() == kMaxSampleTimes) return malformed("it has too many times");
    if (!reader.read(last)) return malformed("a time of a sample is out of range");
    times.entries.push_back(last);
  }
  return times;
}

}  // namespace

void normalize(SampleTimes& times) {
  auto& entries = times.entries;
  std::erase_if(entries, [&](const SampleTime& time) { return time.tick >= times.until; });
  std::ranges::sort(entries);
  std::size_t kept = 0;
  for (const SampleTime& time : entries) {
    SampleTime* const last = kept == 0 ? nullptr : &entries[kept - 1];
    if (last != nullptr && std::tie(last->sample, last->tick) == std::tie(time.sample, time.tick)) {
      last->count += time.count;
    } else {
      entries[kept++] = time;
    }
  }
  entries.resize(kept);
  if (kept <= kMaxSampleTimes) return;
  // The last tick that fits is left out as a whole.
  std::vector<std::uint32_t> ticks;
  ticks.reserve(kept);
  for (const SampleTime& time : entries) ticks.push_back(time.tick);
  const auto limit = ticks.begin() + static_cast<std::ptrdiff_t>(kMaxSampleTimes);
  std::nth_element(ticks.begin(), limit, ticks.end());
  times.until = *limit;
  std::erase_if(entries, [&](const SampleTime& time) { return time.tick >= times.until; });
}

std::string encode_sample_times(const SampleTimes& times) {
  std::string bytes;
  append(times.until, bytes);
  SampleTime last{.count = 0};
  for (const SampleTime& time : times.entries) {
    const bool is_same = last.count != 0 && last.sample == time.sample;
    append(time.sample - last.sample, bytes);
    append(time.tick - (is_same ? last.tick : 0), bytes);
    append(time.count, bytes);
    last = time;
  }
  return bytes;
}

Result<SampleTimes> decode_sample_times(std::string_view bytes) {
  try {
    return decode(EntryReader(bytes));
  } catch (const protozero::exception&) {
    return malformed("the times of its samples are cut");
  }
}

}  // namespace profd
