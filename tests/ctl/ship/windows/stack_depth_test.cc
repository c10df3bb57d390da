#include "ctl/ship/windows/stack_depth.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class StackDepthTest : public testing::Test {
 protected:
  // A stack of these functions, the leaf first.
  void add(const std::vector<std::string>& functions, std::int64_t value) {
    std::vector<std::uint32_t> stack;
    stack.reserve(functions.size());
    for (const std::string& name : functions) {
      const PprofLine line{.function = profile_.add_function({.name = profile_.add_text(name)})};
      stack.push_back(profile_.add_location({}, {&line, 1}));
    }
    profile_.add_sample({.labels = profile_.add_labels({}), .stack = profile_.add_stack(stack)},
                        std::vector{value});
  }

  // Each sample: its functions, the leaf first, and its value.
  [[nodiscard]] std::vector<std::string> limited_to(std::size_t most) const {
    const std::string bytes = encode_pprof(profile_);
    PprofTables tables = *read_pprof_tables(bytes);
    limit_depth(tables, most);
    const PprofProfile limited = profile_of(tables);
    std::vector<std::string> samples;
    samples.reserve(limited.samples().size());
    for (std::size_t i = 0; i < limited.samples().size(); ++i) {
      std::string text;
      for (const std::uint32_t place : limited.stack(limited.samples()[i].stack)) {
        const PprofLine& line = limited.lines(limited.locations()[place].lines)[0];
        text += std::string(limited.text(limited.functions()[line.function].name)) + ' ';
      }
      samples.push_back(text + std::to_string(limited.values(i)[0]));
    }
    return samples;
  }

  PprofProfile profile_{std::vector<PprofValueType>{{.type = "samples", .unit = "count"}}};
};

// Finds a cut at the leaf's end, which gives its time to another function.
TEST_F(StackDepthTest, ADeepStackKeepsItsInnermostFrames) {
  add({"leaf", "f", "g", "main", "start"}, 5);
  EXPECT_THAT(limited_to(3), ElementsAre("leaf f [frames left out] 5"));
  EXPECT_THAT(limited_to(1), ElementsAre("[frames left out] 5"));
}

TEST_F(StackDepthTest, AStackUpToTheLimitStays) {
  add({"leaf", "f", "main"}, 1);
  add({"leaf", "main"}, 2);
  EXPECT_THAT(limited_to(3), UnorderedElementsAre("leaf f main 1", "leaf main 2"));
  EXPECT_THAT(limited_to(2), UnorderedElementsAre("leaf [frames left out] 1", "leaf main 2"));
}

TEST_F(StackDepthTest, StacksThatDifferInWhatIsLeftOutAreOne) {
  add({"leaf", "f", "g", "main"}, 1);
  add({"leaf", "f", "h", "main"}, 2);
  add({"leaf", "f", "h", "h", "main"}, 4);
  EXPECT_THAT(limited_to(3), ElementsAre("leaf f [frames left out] 7"));
}

}  // namespace
}  // namespace profd
