// Chains of Python frames that are read while they change: a program that calls, yields, raises,
// sorts and execs without end, each function from one place alone. Whatever instruction a tick
// interrupts, what is shown is a chain that the program can have.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "tests/e2e/python_fixture.h"

namespace profd::e2e {
namespace {

// Of 10,000 samples, 20 to 50 were wrong in 3.11 and 3.12 before the loop's prologue was heeded.
constexpr std::int64_t kLeastJudged = 10'000;
// `<module>`, main, loop, step, and below it at most four calls of recurse.
constexpr std::size_t kMostFrames = 9;

class RaceJudge {
 public:
  explicit RaceJudge(const PythonTruth& truth) : truth_(truth) {
    for (const auto& [caller, callee] : truth.pairs) callees_.insert(callee);
  }

  void judge(const PythonSample& sample) {
    if (!is_of_loop(sample)) return;
    judged_ += sample.samples;
    if (sample.python.back().name != "<module>") cut_ += sample.samples;
    const bool is_lie = sample.python.size() > kMostFrames || has_false_pair(sample);
    if (is_lie) lies_ += sample.samples;
    if (is_lie && first_lie_.empty()) first_lie_ = sample.text();
  }

  [[nodiscard]] std::int64_t judged() const { return judged_; }
  [[nodiscard]] std::int64_t cut() const { return cut_; }
  [[nodiscard]] std::int64_t lies() const { return lies_; }
  [[nodiscard]] const std::string& first_lie() const { return first_lie_; }

 private:
  // Not of the start and end of the program. `main` is a callee too, and alone says nothing.
  [[nodiscard]] bool is_of_loop(const PythonSample& sample) const {
    return std::ranges::any_of(sample.python, [this](const PythonFrame& frame) {
      return frame.name != "main" && frame.name != "<module>" && callees_.contains(frame.name);
    });
  }
  [[nodiscard]] bool has_false_pair(const PythonSample& sample) const {
    for (std::size_t i = 0; i + 1 < sample.python.size(); ++i) {
      if (!truth_.pairs.contains({sample.python[i + 1].name, sample.python[i].name})) return true;
    }
    return false;
  }

  const PythonTruth& truth_;
  std::set<std::string> callees_;
  std::int64_t judged_ = 0;
  std::int64_t cut_ = 0;
  std::int64_t lies_ = 0;
  std::string first_lie_;
};

using PythonRacesTest = PythonTest;

// Without the check of the code's type, of the prologue, or of the anchors' order, this has lies.
TEST_F(PythonRacesTest, NoChainLies) {
  const char* const seconds = std::getenv("RACES_SECONDS");
  const PythonSamples samples = record_python(
      {"-F", "4999"}, python_command("races.py", {seconds == nullptr ? "4" : seconds}));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  RaceJudge races(truth);
  for (const PythonSample& sample : samples.all()) races.judge(sample);
  std::printf("3.%u: %lld chains, %lld cut, %lld false\n", truth.minor,
              static_cast<long long>(races.judged()), static_cast<long long>(races.cut()),
              static_cast<long long>(races.lies()));
  EXPECT_GE(races.judged(), kLeastJudged);
  EXPECT_EQ(races.lies(), 0) << races.first_lie();
  EXPECT_LE(races.cut(), races.judged() / 1'000);
  EXPECT_GE(samples.named_share(), 0.999);
}

}  // namespace
}  // namespace profd::e2e
