// GET /metrics, read by the reader that Prometheus's own Python client has.

#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

// Prints "TYPE NAME LABELS VALUE" of every series.
constexpr const char* kReader = R"(
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation.endswith('.'), family.name
    for sample in family.samples:
        labels = ','.join(f'{key}={value}' for key, value in sorted(sample.labels.items())) or '-'
        print(family.type, sample.name, labels, sample.value)
)";

struct Series {
  std::string type;
  std::string name;
  std::string labels;
  double value = 0;
};

class MetricsTest : public ::testing::Test {
 protected:
  std::vector<Series> scrape(const Process::Options& as = {}) const {
    const Ended ended = run({"bash", "-c",
                             "set -o pipefail; curl --silent --fail --unix-socket \"$0\" "
                             "http://profd/metrics | /usr/bin/python3 -c \"$1\"",
                             daemon_.socket(), kReader},
                            as);
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::vector<Series> all;
    std::istringstream lines(ended.out);
    for (Series one; lines >> one.type >> one.name >> one.labels >> one.value;) all.push_back(one);
    return all;
  }

  static double value_of(const std::vector<Series>& all, const std::string& name,
                         const std::string& labels = "-") {
    for (const Series& one : all) {
      if (one.name == name && one.labels == labels) return one.value;
    }
    ADD_FAILURE() << "no " << name << " " << labels;
    return 0;
  }

  Daemon daemon_;
};

TEST_F(MetricsTest, AreWhatPrometheusReads) {
  const std::vector<Series> all = scrape();
  EXPECT_GT(all.size(), 60U);
  for (const Series& one : all) {
    EXPECT_THAT(one.name, StartsWith("profd_"));
    EXPECT_THAT(one.type, AnyOf("counter", "gauge")) << one.name;
    EXPECT_EQ(one.type == "counter", one.name.ends_with("_total")) << one.name;
    EXPECT_THAT(one.labels, AnyOf("-", StartsWith("place="), StartsWith("reason="),
                                  StartsWith("source="), StartsWith("version=")))
        << one.name;
  }
}

TEST_F(MetricsTest, AreTheFiguresOfStatus) {
  Process busy({workload("shares"), "600"});
  ASSERT_EQ(daemon_.profctl({"start", "-a"}).status, 0);
  ASSERT_TRUE(eventually([&] { return daemon_.status().received > 100; }));
  const StatusInfo before = daemon_.status();
  const std::vector<Series> all = scrape();
  const StatusInfo after = daemon_.status();
  const auto lies_between = [&](const char* name, std::uint64_t low, std::uint64_t high) {
    EXPECT_GE(value_of(all, name), static_cast<double>(low)) << name;
    EXPECT_LE(value_of(all, name), static_cast<double>(high)) << name;
  };
  lies_between("profd_samples_taken_total", before.ledger.taken, after.ledger.taken);
  lies_between("profd_samples_sent_total", before.ledger.sent, after.ledger.sent);
  lies_between("profd_samples_received_total", before.received, after.received);
  lies_between("profd_user_stacks_total", before.unwinding.user_samples,
               after.unwinding.user_samples);
  EXPECT_EQ(value_of(all, "profd_sessions"), 1);
  // For tables, for results of privileged callers and of others, for what runtimes write; the two
  // doors, and a closer.
  EXPECT_EQ(value_of(all, "profd_parser_processes"), 7);
  EXPECT_GE(value_of(all, "profd_cpu_seconds_total"), before.cpu_seconds);
  EXPECT_LE(value_of(all, "profd_cpu_seconds_total"), after.cpu_seconds);
  EXPECT_EQ(value_of(all, "profd_samples_lost_total", "reason=ring_full"), 0);
  EXPECT_EQ(value_of(all, "profd_user_stacks_incomplete_total", "reason=32_bit"), 0);
  EXPECT_EQ(value_of(all, "profd_unwind_files_refused_total", "reason=over_share"), 0);
}

TEST_F(MetricsTest, NoProcessChoosesALabel) {
  TemporaryDirectory directory;
  const std::filesystem::path hostile = directory.path() / "x\"} 1\nprofd_forged_total 7";
  std::filesystem::copy_file(workload("shares"), hostile);
  ASSERT_EQ(daemon_.profctl({"start", "-a", "-F", "499"}).status, 0);
  Process process({hostile, "600"});
  const std::uint64_t before = daemon_.status().received;
  ASSERT_TRUE(eventually([&] { return daemon_.status().received > before + 200; }));
  for (const Series& one : scrape()) EXPECT_NE(one.name, "profd_forged_total");
  for (const Series& one : scrape()) EXPECT_EQ(one.labels.find("forged"), std::string::npos);
}

TEST_F(MetricsTest, AreForEveryUserAsStatusIs) {
  Process::Options somebody;
  somebody.uid = kSomebody;
  std::map<std::string, std::string> theirs;
  std::map<std::string, std::string> roots;
  for (const Series& one : scrape(somebody)) theirs[one.name + one.labels] = one.type;
  for (const Series& one : scrape()) roots[one.name + one.labels] = one.type;
  EXPECT_EQ(theirs, roots);
}

}  // namespace
}  // namespace profd::e2e
