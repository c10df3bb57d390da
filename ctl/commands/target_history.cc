#include "ctl/commands/target_history.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ctl/output/text.h"

namespace profd {
namespace {

// Two days of minutes and 30 days of hours take five; this is a limit for short windows, and for a
// daemon with a bug.
constexpr int kMostRequests = 20;

// Milliseconds since 1970 of the start of a window; 0 where the daemon sends no time.
std::uint64_t start_ms_of(const WindowShares& window) {
  constexpr std::uint64_t kMsOfSecond = 1000;
  return static_cast<std::uint64_t>(parse_utc(window.started).value_or(0)) * kMsOfSecond;
}

// Adds windows of an answer, the newest first, to those that were read before.
class TargetWindows {
 public:
  TargetWindows(const TimeRange& range, std::size_t wanted) : wanted_(wanted) {
    found_.range = range;
  }

  // False: nothing older is wanted, or is there.
  bool add(History part) {
    const std::uint64_t before = oldest_ms_;
    found_.history.left_out = part.left_out;
    for (auto window = part.windows.rbegin(); window != part.windows.rend(); ++window) {
      const std::uint64_t start = start_ms_of(*window);
      if (start >= before) continue;  // one that ends some milliseconds late comes twice
      oldest_ms_ = std::min(oldest_ms_, start);
      add(std::move(*window));
    }
    return !is_full() && part.left_out != 0 && oldest_ms_ < before &&
           oldest_ms_ > found_.range.since_ms;
  }

  [[nodiscard]] std::uint64_t oldest_ms() const { return oldest_ms_; }

  TargetHistory take() {
    if (found_.history.left_out != 0) found_.range.since_ms = oldest_ms_;
    std::ranges::reverse(found_.history.windows);
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_full() const { return found_.history.windows.size() >= wanted_; }

  void add(WindowShares window) {
    if (is_full()) {
      ++found_.history.left_out;
    } else if (window.samples == 0) {
      ++found_.lacking;
    } else {
      found_.history.windows.push_back(std::move(window));
    }
  }

  TargetHistory found_;  // the newest first
  std::size_t wanted_;
  std::uint64_t oldest_ms_ = TimeRange::kEndMs;
};

}  // namespace

Result<TargetHistory> read_target_history(Client& client, HistoryRequest request) {
  if (request.target.empty()) {
    auto history = client.history(request);
    if (!history) return history.error();
    return TargetHistory{.history = std::move(*history), .range = request.range};
  }
  TargetWindows windows(request.range, request.limit);
  for (int i = 0; i < kMostRequests; ++i) {
    auto part = client.history(request);
    if (!part) return part.error();
    if (!windows.add(std::move(*part))) break;
    // What is in the newest windows is found with few of them; the rest is read in few requests.
    request.limit = HistoryRequest::kMaxWindows;
    request.range.until_ms = windows.oldest_ms();
  }
  return windows.take();
}

}  // namespace profd
