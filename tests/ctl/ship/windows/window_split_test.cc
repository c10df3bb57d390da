#include "ctl/ship/windows/window_split.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ship/a_window.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::int64_t samples_in(const std::string& profile) {
  const auto decoded = decode_pprof(profile);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < decoded->samples().size(); ++i) sum += decoded->values(i)[0];
  return sum;
}

std::string encoded_part(PprofParts& window, const ServicePart& part,
                         ThreadLabels threads = ThreadLabels::kKept) {
  return encode_pprof(profile_of_part(window, part, threads));
}

class WindowSplitTest : public testing::Test {
 protected:
  // By service.
  std::map<std::string, std::int64_t> split(const SplitOptions& options = {}) {
    bytes_ = encode_pprof(window_.profile);
    tables_ = *read_pprof_tables(bytes_);
    split_ = split_window(tables_, options);
    PprofParts parts(tables_);
    std::map<std::string, std::int64_t> services;
    for (const ServicePart& part : split_.parts) {
      services[part.labels.at(kServiceLabel)] += samples_in(encoded_part(parts, part));
    }
    return services;
  }

  test::AWindow window_;
  std::string bytes_;
  PprofTables tables_;
  WindowParts split_;
};

TEST_F(WindowSplitTest, AServiceIsTheUnitOrElseTheCommand) {
  window_.add(1, "worker", "nginx.service", "f", 1);
  window_.add(2, "master", "nginx.service", "f", 2);
  window_.add(3, "bash", "session-#.scope", "f", 4);
  EXPECT_THAT(split(), ElementsAre(Pair("bash", 4), Pair("nginx", 3)));
}

TEST_F(WindowSplitTest, KernelThreadsAreOneService) {
  window_.add(1, "kworker/0", "-", "ret_from_fork_asm", 1, "[kernel.kallsyms]");
  window_.add(2, "kswapd0", "-", "ret_from_fork", 2, "[kernel.kallsyms]");
  window_.add(3, "forger", "-", "ret_from_fork", 4);
  window_.add(4, "forked", "-", "ret_from_fork", 8, "[kernel.kallsyms]");
  window_.add(4, "forked", "-", "main", 16);
  EXPECT_THAT(split(), ElementsAre(Pair("forger", 4), Pair("forked", 24), Pair("kernel", 3)));
}

TEST_F(WindowSplitTest, TheFirstRuleThatMatchesDecides) {
  window_.add(1, "a1", "x.service", "f", 1);
  window_.add(2, "a2", "x.service", "f", 2);
  window_.add(3, "b", "x.service", "f", 4);
  SplitOptions options;
  options.rules = {{{{"comm", "a2"}}, "", {}, true},
                   {{{"comm", "a*"}, {"unit", "x*"}}, "{unit}/{comm}", {{"who", "{user}"}}, false},
                   {{{"comm", "a1"}}, "never", {}, false}};
  EXPECT_THAT(split(options), ElementsAre(Pair("x", 4), Pair("x.service/a1", 1)));
  EXPECT_EQ(split_.samples_dropped, 1U);
  for (const ServicePart& part : split_.parts) {
    const bool is_of_rule = part.labels.at(kServiceLabel) == "x.service/a1";
    EXPECT_EQ(part.labels.contains("who") && part.labels.at("who") == "bob", is_of_rule);
  }
}

TEST_F(WindowSplitTest, ServicesOverTheLimitAreOther) {
  window_.add(1, "a", "-", "f", 1);
  window_.add(1, "a", "-", "g", 1);
  window_.add(2, "b", "-", "f", 4);
  window_.add(3, "c", "-", "f", 8);
  SplitOptions options;
  options.max_services = 1;
  EXPECT_THAT(split(options), ElementsAre(Pair("a", 2), Pair("other", 12)));
  EXPECT_EQ(split_.services_over_limit, 2U);
}

// Any user can make scopes, each of which is another unit.
TEST_F(WindowSplitTest, AServiceOfTooManySeriesIsOneWithoutLabels) {
  for (int i = 0; i < 5; ++i) {
    window_.add(i + 1, "bash", "run-" + std::to_string(i) + ".scope", "f", 1);
  }
  window_.add(9, "worker", "nginx.service", "f", 32);
  SplitOptions options;
  options.max_services = 3;
  EXPECT_THAT(split(options), ElementsAre(Pair("bash", 5), Pair("nginx", 32)));
  EXPECT_EQ(split_.parts.size(), 6U);
  EXPECT_EQ(split_.series_joined, 0U);
  options.max_services = 2;
  EXPECT_THAT(split(options), ElementsAre(Pair("bash", 5), Pair("nginx", 32)));
  EXPECT_EQ(split_.series_joined, 5U);
  EXPECT_EQ(split_.services_over_limit, 0U);
  ASSERT_EQ(split_.parts.size(), 2U);
  EXPECT_THAT(split_.parts[0].labels,
              ElementsAre(Pair("__name__", "process_cpu"), Pair("service_name", "bash")));
  EXPECT_EQ(split_.parts[1].labels.at("unit"), "nginx.service");
}

TEST_F(WindowSplitTest, SeriesHaveTheLabelsAndSamplesHaveNone) {
  window_.add(1, "worker", "nginx.service", "f", 1);
  SplitOptions options;
  options.host = "h";
  (void)split(options);
  EXPECT_THAT(
      split_.parts[0].labels,
      ElementsAre(Pair("__name__", "process_cpu"), Pair("host", "h"), Pair("service_name", "nginx"),
                  Pair("unit", "nginx.service"), Pair("user", "bob")));
  PprofParts parts(tables_);
  const auto profile = decode_pprof(encoded_part(parts, split_.parts[0]));
  EXPECT_THAT(profile->labels(profile->samples()[0].labels), IsEmpty());
}

TEST_F(WindowSplitTest, WithoutThreadsTheSamplesOfAStackAreOne) {
  window_.thread = "pool-#";
  window_.add(1, "a", "-", "f", 1);
  window_.thread = "main";
  window_.add(1, "a", "-", "f", 2);
  (void)split();
  PprofParts parts(tables_);
  EXPECT_EQ(decode_pprof(encoded_part(parts, split_.parts[0]))->samples().size(), 2U);
  const auto profile = decode_pprof(encoded_part(parts, split_.parts[0], ThreadLabels::kDropped));
  ASSERT_EQ(profile->samples().size(), 1U);
  EXPECT_EQ(profile->values(0)[0], 3);
  EXPECT_THAT(profile->labels(profile->samples()[0].labels), IsEmpty());
}

TEST_F(WindowSplitTest, APodIsItsNamespaceAndItsName) {
  window_.container = "0123456789ab";
  window_.pod = "shop/web-7d4b9c6f5d-x2x9z";
  window_.add(1, "nginx", "-", "f", 1);
  EXPECT_THAT(split(), ElementsAre(Pair("web", 1)));
  EXPECT_EQ(split_.parts[0].labels.at("namespace"), "shop");
  EXPECT_EQ(split_.parts[0].labels.at("pod"), "web-7d4b9c6f5d-x2x9z");
  SplitOptions options;
  options.rules = {{{{"namespace", "sh*"}}, "{namespace}.{comm}", {}, false}};
  EXPECT_THAT(split(options), ElementsAre(Pair("shop.nginx", 1)));
}

TEST_F(WindowSplitTest, RulesMatchOnTheCgroupWhichIsNoLabel) {
  window_.add(1, "a", "-", "f", 1);
  window_.add(2, "a", "-", "g", 2);
  window_.profile.own_data =
      R"({"session":{},"window":{"profiles":[{"labels":{"pid":1,"comm":"a"},"cgroup":"/x/one"},)"
      R"({"labels":{"pid":2},"cgroup":"/y"},{"labels":{}},{"cgroup":3},7]}})";
  SplitOptions options;
  options.rules = {{{{"cgroup", "/x/*"}}, "of{cgroup}", {}, false}};
  EXPECT_THAT(split(options), ElementsAre(Pair("a", 2), Pair("of/x/one", 1)));
  for (const ServicePart& part : split_.parts) EXPECT_FALSE(part.labels.contains("cgroup"));
  for (const char* own_data : {"", "{", "[]", R"({"window":1})", R"({"window":{"profiles":2}})"}) {
    window_.profile.own_data = own_data;
    EXPECT_THAT(split(options), ElementsAre(Pair("a", 3))) << own_data;
  }
}

TEST_F(WindowSplitTest, HalvesHaveTheSamplesOfTheWhole) {
  for (int i = 0; i < 5; ++i) window_.add(1, "a", "-", "f" + std::to_string(i), 1 << i);
  (void)split();
  ServicePart first = split_.parts[0];
  const ServicePart second = take_half(first);
  PprofParts parts(tables_);
  EXPECT_EQ(first.labels, second.labels);
  EXPECT_EQ(first.samples.size(), 2U);
  EXPECT_EQ(samples_in(encoded_part(parts, first)) + samples_in(encoded_part(parts, second)), 31);
}

// Finds parts with the time of the window, and halves whose time is that of the next part.
TEST_F(WindowSplitTest, EachPartOfASeriesHasATimeOfItsOwn) {
  window_.profile.time_ns = 1000;
  for (int i = 0; i < 9; ++i) window_.add(1, "a", "-", "f" + std::to_string(i), 1);
  window_.add(2, "b", "-", "g", 1);
  (void)split();
  ASSERT_EQ(split_.parts.size(), 2U);
  std::vector<ServicePart> waiting{split_.parts[0]};
  std::size_t done = 0;
  while (done < waiting.size()) {
    if (waiting[done].samples.size() == 1) {
      ++done;
      continue;
    }
    ServicePart half = take_half(waiting[done]);
    waiting.insert(waiting.begin() + static_cast<std::ptrdiff_t>(done) + 1, std::move(half));
  }
  PprofParts parts(tables_);
  std::vector<std::int64_t> times;
  times.reserve(waiting.size());
  for (const ServicePart& part : waiting) times.push_back(profile_of_part(parts, part).time_ns);
  EXPECT_THAT(times, ElementsAre(1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008));
  EXPECT_EQ(profile_of_part(parts, split_.parts[1]).time_ns, 1000) << "another series";
}

// A part that begins anew after a refusal has the times that it had: they follow from its samples.
TEST_F(WindowSplitTest, AHalfHasTheTimeOfItsFirstSample) {
  window_.profile.time_ns = 1000;
  for (int i = 0; i < 5; ++i) window_.add(1, "a", "-", "f" + std::to_string(i), 1);
  (void)split();
  ServicePart first = split_.parts[0];
  const ServicePart second = take_half(first);
  PprofParts parts(tables_);
  EXPECT_EQ(profile_of_part(parts, first).time_ns, 1000);
  EXPECT_EQ(profile_of_part(parts, second).time_ns, 1002);
  EXPECT_EQ(profile_of_part(parts, second, ThreadLabels::kDropped).time_ns, 1002);
}

TEST(WorkloadTest, IsThePodWithoutWhatKubernetesAdds) {
  struct Case {
    const char* pod;
    const char* workload;
  };
  for (const Case& one : std::vector<Case>{{"web-7d4b9c6f5d-x2x9z", "web"},
                                           {"web-x2x9z", "web"},
                                           {"my-db-0", "my-db"},
                                           {"my-db-12345", "my-db-12345"},
                                           {"kube-apiserver-node1", "kube-apiserver-node1"},
                                           {"backup-28401120-x2x9z", "backup"},
                                           {"backup-29401121-x2x9z", "backup"},
                                           {"backup-2840112-x2x9z", "backup-2840112"},
                                           {"backup-28401120", "backup-28401120"},
                                           {"web", "web"},
                                           {"-x2x9z", "-x2x9z"},
                                           {"", ""}}) {
    EXPECT_EQ(workload_of(one.pod), one.workload) << one.pod;
  }
}

TEST(ServicePatternTest, AStarIsAnyText) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Case& one : std::vector<Case>{{"", "", true},
                                           {"", "a", false},
                                           {"*", "", true},
                                           {"a*c", "abc", true},
                                           {"a*c", "abcd", false},
                                           {"*b*b*", "abab", true},
                                           {"*bb", "abab", false},
                                           {"a", "b", false},
                                           {"**", "x", true}}) {
    EXPECT_EQ(matches_pattern(one.pattern, one.text), one.matches) << one.pattern << one.text;
  }
}

}  // namespace
}  // namespace profd
