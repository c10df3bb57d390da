#include "formats/api/check_report.h"

#include <gmock/gmock.h>

namespace profd {
namespace {

CheckReport sample_report() {
  return {{.name = "btf", .message = "BTF available", .hint = {}},
          {.name = "kallsyms",
           .state = CheckState::kFix,
           .message = "no addresses",
           .hint = "sysctl",
           .needs_privilege = true},
          {.name = "pmu", .state = CheckState::kNote, .message = "none", .hint = {}}};
}

TEST(CheckReport, ReadsWhatItWrites) {
  const auto read = parse_check_report(to_json(sample_report()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, sample_report());
}

TEST(CheckReport, HasTheStateOfItsMostSeverePoint) {
  EXPECT_EQ(worst_state({}), CheckState::kOk);
  EXPECT_EQ(worst_state(sample_report()), CheckState::kFix);
  CheckReport report = sample_report();
  report.push_back({.name = "x", .state = CheckState::kFatal, .message = {}, .hint = {}});
  EXPECT_EQ(worst_state(report), CheckState::kFatal);
}

TEST(CheckReport, RefusesOtherShapes) {
  for (const char* text :
       {"", "[]", "{}", "{\"points\":1}", "{\"points\":[{\"name\":\"a\",\"message\":\"b\"}]}",
        "{\"points\":[{\"name\":\"a\",\"state\":\"great\",\"message\":\"b\"}]}",
        "{\"points\":[{\"name\":\"a\",\"state\":7,\"message\":\"b\"}]}"}) {
    EXPECT_FALSE(parse_check_report(text)) << text;
  }
}

}  // namespace
}  // namespace profd
