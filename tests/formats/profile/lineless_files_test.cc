#include "formats/profile/lineless_files.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LinelessFilesTest : public testing::Test {
 protected:
  std::uint32_t add_location(const std::string& file, const std::string& id, std::uint32_t line) {
    const std::uint32_t mapping =
        profile_.add_mapping({.file = profile_.add_text(file), .build_id = profile_.add_text(id)});
    const PprofLine one{.function = profile_.add_function({.name = profile_.add_text("f")}),
                        .line = line};
    return profile_.add_location({.address = ++address_, .mapping = mapping}, {&one, 1});
  }
  void add(std::vector<std::uint32_t> stack, std::int64_t samples) {
    profile_.add_sample({.labels = profile_.add_labels({}), .stack = profile_.add_stack(stack)},
                        std::vector{samples});
  }
  [[nodiscard]] std::vector<std::string> found() const {
    const std::string bytes = encode_pprof(profile_);
    std::vector<std::string> shown;
    for (const LinelessFile& file : find_lineless_files(*read_pprof_tables(bytes))) {
      shown.push_back(file.build_id + " " + file.path + " " + std::to_string(file.samples));
    }
    return shown;
  }

  PprofProfile profile_{{{"samples", "count"}}};
  std::uint64_t address_ = 0;
};

TEST_F(LinelessFilesTest, TheHottestFileIsFirstAndASampleCountsOnceForIt) {
  const std::uint32_t cold = add_location("/bin/cold", "aaaa", 0);
  const std::uint32_t hot = add_location("/lib/hot.so", "bbbb", 0);
  const std::uint32_t hot_caller = add_location("/lib/hot.so", "bbbb", 0);
  const std::uint32_t with_line = add_location("/bin/good", "cccc", 7);
  add({cold, with_line}, 2);
  add({hot, hot_caller, cold}, 5);
  add({with_line}, 100);
  EXPECT_THAT(found(), ElementsAre("aaaa /bin/cold 7", "bbbb /lib/hot.so 5"));
}

TEST_F(LinelessFilesTest, AFileWithALineAnywhereIsLeftOut) {
  const std::uint32_t start = add_location("/bin/program", "aaaa", 0);
  const std::uint32_t main = add_location("/bin/program", "aaaa", 12);
  add({main, start}, 5);
  add({start}, 1);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(LinelessFilesTest, MappingsWithoutABuildIdAreLeftOut) {
  for (const char* id : {"", "../../etc/passwd", "abc", "ABCD", "aa/b", "ab"}) {
    add({add_location("/bin/program", id, 0)}, 1);
  }
  add({add_location("/bin/program", std::string(130, 'a'), 0)}, 1);
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace profd
