// Names of a stripped Go program, which are those of the same program with DWARF.

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

using NamesGoTest = NamedProgramsTest;

TEST_F(NamesGoTest, OfAStrippedProgramAreThoseOfItsDwarf) {
  const RecordedLocations locations = record({workload("goroutines_stripped"), "1", "20"});
  EXPECT_GT(samples_in(locations, "main.bottom"), 50);
  EXPECT_THAT(names_in(locations), ::testing::Contains("main.descend"));
  expect_frames_of_llvm(locations, "/goroutines_stripped", workload("goroutines"));
}

}  // namespace
}  // namespace profd::e2e
