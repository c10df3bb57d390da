#include "tests/bpf/sampling_test.h"

#include <numeric>
#include <thread>

#include "tests/collectors/begun_start.h"
#include "tests/collectors/settled_stop.h"

namespace profd::test {

using std::chrono::milliseconds;

void SamplingTest::open(const SamplerOptions& options) {
  sampler_.reset();
  auto sampler = Sampler::open(options, sink_);
  ASSERT_TRUE(sampler) << sampler.error().message << " (" << sampler.error().hint << ")";
  sampler_ = std::move(*sampler);
}

SessionSlot SamplingTest::start(const Target& target, std::uint64_t frequency_hz) {
  return start(target, event_of("cpu-clock", frequency_hz));
}

SessionSlot SamplingTest::start(const Target& target, const EventSpec& event) {
  const auto slot = start_and_begin(*sampler_, event, target);
  if (!slot) throw std::runtime_error(slot.error().message);
  return *slot;
}

void SamplingTest::collect_until(const std::function<bool()>& condition) {
  const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > guard) {
      FAIL() << "not within a minute; " << sink_.samples.size() << " samples";
    }
    std::this_thread::sleep_for(milliseconds(10));
    sampler_->drain();
  }
}

void SamplingTest::collect(std::uint32_t tgid, std::size_t samples) {
  collect_until([&] { return sink_.of_process(tgid).size() >= samples; });
}

void SamplingTest::collect_for(milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  collect_until([&] { return std::chrono::steady_clock::now() >= end; });
}

SlotLedger SamplingTest::stop_balanced(SessionSlot slot) {
  const SlotLedger last = stop_when_settled(*sampler_, slot);
  EXPECT_EQ(last.taken, last.received + total(last.lost));
  const SamplerLedger all = sampler_->ledger();
  EXPECT_EQ(difference(all), 0);
  EXPECT_EQ(all.malformed, 0U);
  return last;
}

EventSpec event_of(const std::string& name, std::uint64_t frequency_hz, std::uint64_t period) {
  auto event = make_event_spec(name, frequency_hz, period);
  if (!event) throw std::runtime_error(event.error().message);
  return *event;
}

Target target_of_pid(std::uint32_t pid) {
  Target target;
  target.pids = {pid};
  return target;
}

Target target_of_all() {
  Target target;
  target.all = true;
  return target;
}

std::uint64_t total(const LossCounts& lost) {
  return std::accumulate(lost.begin(), lost.end(), std::uint64_t{0});
}

std::int64_t difference(const SamplerLedger& ledger) {
  return static_cast<std::int64_t>(ledger.taken - ledger.sent - ledger.idle - ledger.filtered -
                                   total(ledger.lost));
}

}  // namespace profd::test
