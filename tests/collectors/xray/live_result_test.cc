#include "collectors/xray/live_result.h"

#include <gmock/gmock.h>

namespace profd::xray {
namespace {

LiveResult example() {
  LiveResult result;
  result.report.records = 22;
  result.report.entries = 11;
  result.report.threads = 3;
  result.report.count(Issue::kLostRecords, 5);
  result.functions = 7;
  result.patched = 4;
  result.ns_per_tick = 0.385;
  const std::vector<Frame> stack = {{.pc = 0x1010, .kind = PcKind::kExact},
                                    {.pc = 0x1000, .kind = PcKind::kExact}};
  for (Profile* profile : {&result.exclusive, &result.calls}) {
    profile->period = 1;
    profile->mappings = {{.start = 0x1000, .end = 0x2000, .path = std::string(kProgramPath)}};
    profile->add_stack(stack, 9);
  }
  result.unknown_image = "an image";
  return result;
}

TEST(LiveResult, IsDecodedAsItWasEncoded) {
  const LiveResult result = example();
  const auto back = decode_live_result(encode(result));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->report, result.report);
  EXPECT_EQ(back->functions, result.functions);
  EXPECT_EQ(back->patched, result.patched);
  EXPECT_EQ(back->ns_per_tick, result.ns_per_tick);
  EXPECT_EQ(back->exclusive, result.exclusive);
  EXPECT_EQ(back->calls, result.calls);
  EXPECT_EQ(back->unknown_image, result.unknown_image);
}

TEST(LiveResult, IsRefusedIfItIsCutAnywhere) {
  const std::string bytes = encode(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_live_result(std::string_view(bytes).substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_live_result(bytes + "x"));
}

TEST(LiveResult, AnyBytesGiveAResultOrAnError) {
  const std::string bytes = encode(example());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x80);
    (void)decode_live_result(changed);
  }
}

}  // namespace
}  // namespace profd::xray
