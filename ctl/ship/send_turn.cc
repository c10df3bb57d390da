#include "ctl/ship/send_turn.h"

#include <algorithm>

#include "formats/base/seeded_hash.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLongestTurn = std::chrono::minutes(10);
constexpr int kSpread = 10;  // a part of the length

}  // namespace

double send_phase(std::string_view host) {
  SeededHash hash(0);  // not random: the phase is the same after a restart
  hash.add_text(host);
  constexpr int kMantissaBits = 53;
  constexpr double kValues = 1ULL << kMantissaBits;
  return static_cast<double>(hash.value() >> (64 - kMantissaBits)) / kValues;
}

milliseconds SendTurn::wait(Time now) const {
  const nanoseconds offset(
      static_cast<nanoseconds::rep>(static_cast<double>(length.count()) * phase));
  const Time turn = end + offset;
  if (now >= turn) return milliseconds(0);
  // After a step of the clock, the end may seem to be far away.
  return std::chrono::ceil<milliseconds>(std::min(turn - now, length));
}

milliseconds SendTurn::pause(Time now, std::size_t profiles) const {
  if (profiles == 0 || now > end + length) return milliseconds(0);
  return std::chrono::floor<milliseconds>(length / kSpread /
                                          static_cast<nanoseconds::rep>(profiles));
}

SendTurn send_turn(SendTurn::Time start, nanoseconds length, double phase) {
  const nanoseconds bounded = std::clamp(length, nanoseconds(0), kLongestTurn);
  return {.end = start + bounded, .length = bounded, .phase = phase};
}

}  // namespace profd
