// A result is on the disk before anyone knows of it.

#include "daemon/storage/result_writer.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/storage/fsync_watch.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class ResultWriterTest : public testing::Test {
 protected:
  // "a.prof" for a file of the result, "." for its directory, "results" for the one around it, with
  // a "+" where the result has its name already.
  std::string shown(const fs::path& path) const {
    const std::string state = fs::exists(results_ / "0000000a") ? "+" : "";
    if (path == results_) return "results" + state;
    const fs::path inside = path.lexically_relative(results_);
    const fs::path below = inside.lexically_relative(*inside.begin());
    return below.string() + state;
  }

  test::ScratchDirectory scratch_;
  fs::path results_ = fs::canonical(scratch_.path());
};

TEST_F(ResultWriterTest, SyncsFilesThenDirectoriesThenTheName) {
  std::vector<std::string> synced;
  const test::FsyncWatch watch([&](const std::string& path) { synced.push_back(shown(path)); });
  Result<ResultWriter> writer = ResultWriter::create(results_);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->add("a.prof", "bytes"));
  EXPECT_THAT(synced, ElementsAre("a.prof"));
  ASSERT_TRUE(writer->add("objects/b.so", "bytes"));
  ASSERT_TRUE(writer->commit("0000000a"));
  EXPECT_THAT(synced, ElementsAre("a.prof", "objects/b.so", "objects", ".", "results+"));
}

TEST_F(ResultWriterTest, SyncsNoFilesThatCanBeMadeAgain) {
  std::vector<std::string> synced;
  const test::FsyncWatch watch([&](const std::string& path) { synced.push_back(shown(path)); });
  Result<ResultWriter> writer = ResultWriter::create(results_);
  ASSERT_TRUE(writer) << writer.error().message;
  writer->set_syncs_files(false);
  ASSERT_TRUE(writer->add("a.prof", "bytes"));
  writer->set_syncs_files(true);
  ASSERT_TRUE(writer->add("b.json", "bytes"));
  ASSERT_TRUE(writer->commit("0000000a"));
  EXPECT_THAT(synced, ElementsAre("b.json", ".", "results+"));
}

}  // namespace
}  // namespace profd
