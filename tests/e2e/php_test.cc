// PHP functions by name, in profiles of Debian's php8.2: the same bones as Python's, another
// interpreter. What is expected comes from PHP itself (debug_backtrace()).

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "tests/e2e/python_stacks.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;

constexpr PythonSamples::Interpreter kPhp{.mapping = "[php]", .loop = "execute_ex"};
constexpr double kPhpPoints = 3;  // that a share may be off

// With and without opcache, which moves functions into shared memory and optimizes them.
class PhpTest : public RecordingTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"php8.2", "-v"}).status, 0);
    known_ = std::make_unique<Process>(Args{"php8.2", "-r", "while (true) { }"});
    const fs::path path = directory_.path() / "known.pb.gz";
    EXPECT_TRUE(eventually([&] {
      fs::remove(path);
      const Ended ended = daemon_.profctl(
          {"record", "-F", "499", "-d", "1s", "--pid", std::to_string(known_->pid()), "-o", path});
      return ended.status == 0 && PythonSamples::read(path, kPhp).named_share() > 0.9;
    })) << daemon_.profctl({"status"}).out;
    known_->signal(SIGSTOP);  // its file stays mapped
  }

  PythonSamples record_php(const std::string& script, const Args& arguments) {
    const fs::path path = directory_.path() / "php.pb.gz";
    Args args{"record",
              "-F",
              "999",
              "-o",
              path,
              "--",
              "php8.2",
              "-d",
              GetParam(),
              "-d",
              "opcache.jit=off",
              fs::path(SOURCE_DIRECTORY) / "tests/workloads/php" / script};
    args.insert(args.end(), arguments.begin(), arguments.end());
    recorded_ = daemon_.profctl(args);
    EXPECT_EQ(recorded_.status, 0) << recorded_.err;
    EXPECT_EQ(daemon_.status().ledger.difference(), 0);
    return PythonSamples::read(path, kPhp);
  }

 private:
  std::unique_ptr<Process> known_;
};

TEST_P(PhpTest, SharesAreThoseOfTheFunctions) {
  const PythonSamples samples = record_php("shares.php", {"3"});
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  for (const PythonCase& one : truth.cases) {
    EXPECT_NEAR(samples.cumulative(one.name), 100 * one.ns / truth.total_ns(), kPhpPoints)
        << one.name;
  }
  EXPECT_GE(samples.cumulative("Worker::round"), 92);
  EXPECT_GE(samples.cumulative("{main}"), 92);
  EXPECT_GE(samples.named_share(), 0.999);
}

// Each frame with its name and its line, those of C functions without one, from the leaf to
// `{main}`.
TEST_P(PhpTest, StacksAreThoseOfTheInterpreterWithTheirLines) {
  const PythonSamples samples = record_php("callbacks.php", {});
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  std::set<NamesAndLines> expected;
  for (const PythonCase& one : truth.cases) expected.insert(names_and_lines(one.stack));
  std::int64_t judged = 0;
  std::string first_wrong;
  for (const PythonSample& sample : samples.all()) {
    const NamesAndLines stack = names_and_lines(sample.python);
    if (stack.empty() || stack.front().first != "hash_pbkdf2") continue;
    judged += sample.samples;
    if (!expected.contains(stack) && first_wrong.empty()) first_wrong = text_of_stack(stack);
  }
  EXPECT_EQ(first_wrong, "");
  EXPECT_GE(static_cast<double>(judged), 0.85 * static_cast<double>(samples.total()));
  std::printf("%lld samples, all of the %zu stacks\n", static_cast<long long>(judged),
              truth.cases.size());
}

INSTANTIATE_TEST_SUITE_P(Opcache, PhpTest,
                         ::testing::Values("opcache.enable_cli=0", "opcache.enable_cli=1"));

}  // namespace
}  // namespace profd::e2e
