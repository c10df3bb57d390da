#include "daemon/profiles/file_hits.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "collectors/parser/parser.h"
#include "daemon/names/line_namer.h"
#include "daemon/names/name_cache.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/daemon/profiles/handmade_session.h"
#include "tests/daemon/samples/synthetic_sample.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::Key;

constexpr std::uint64_t kStart = 0x555500000000;  // where the program is mapped
constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kSubordinate = 100'007;  // of kUser
constexpr std::uint32_t kOfContainer = 300'007;  // a subordinate one of root

class FileHitsTest : public testing::Test {
 protected:
  FileHitsTest() {
    const std::string subuid = scratch_.write("subuid", "1000:100000:65536\n0:300000:65536\n");
    const std::string passwd = scratch_.write("passwd", "");
    namer_ = std::make_unique<FileNamer>(*parser_, lines_, cache_, DebugDirectories(),
                                         UidOwners(subuid, passwd));
    hits_ = std::make_unique<FileHits>(*namer_);
  }

  ProcessSnapshot process_of(std::uint32_t uid) {
    ProcessSnapshot process;
    test::image_of(process).identified = true;
    test::image_of(process).uid = uid;
    test::image_of(process).mappings.emplace(1, program_.mapping());
    return process;
  }

  static void add_samples(ProcessSnapshot& process, SyntheticSample sample, int count) {
    for (int i = 0; i < count; ++i) {
      const SampleView view = sample.view();
      process.samples.stacks.add(view, StackTable::hash_of(view),
                                 std::numeric_limits<std::uint64_t>::max());
    }
  }

  [[nodiscard]] std::uint64_t offset(const std::string& function, std::uint64_t bytes = 0) const {
    const ProcessMapping mapping = program_.mapping();
    return program_.address(function, bytes) - mapping.start + mapping.file_offset;
  }
  [[nodiscard]] const HitFile& hit() const { return hits_->files().at(program_.file()->key); }

  test::ScratchDirectory scratch_;
  ChainProgram program_{CHAIN_PROGRAM, kStart};
  std::unique_ptr<Parser> parser_ = Parser::start().value();
  LineNamer lines_;
  NameCache cache_;
  std::unique_ptr<FileNamer> namer_;
  std::unique_ptr<FileHits> hits_;
};

TEST_F(FileHitsTest, AStackCountsAnAddressAndAFileOnce) {
  ProcessSnapshot process = process_of(kUser);
  SyntheticSample deep(test::kProcess);
  deep.leaf(program_.address("leaf"), 1);
  for (int i = 0; i < 400; ++i) {
    deep.user(program_.address("middle", 5), 1).user(program_.address("outer", 5), 1);
  }
  add_samples(process, deep, 3);
  hits_->add(process);
  const std::map<std::uint64_t, std::uint64_t> once{
      {offset("leaf"), 3}, {offset("middle", 4), 3}, {offset("outer", 4), 3}};
  EXPECT_EQ(hit().samples_by_offset, once);
  EXPECT_EQ(hit().hits_by_payer.at(kUser).samples_by_offset, once);
  EXPECT_EQ(hit().hits_by_payer.at(kUser).samples, 3U);
}

TEST_F(FileHitsTest, HitsAreOfTheUserWhoHasTheUid) {
  for (const std::uint32_t uid : {std::uint32_t{0}, kUser, kSubordinate, kOfContainer}) {
    ProcessSnapshot process = process_of(uid);
    add_samples(process, SyntheticSample(test::kProcess).leaf(program_.address("leaf"), 1), 2);
    hits_->add(process);
  }
  ProcessSnapshot unidentified = process_of(0);
  test::image_of(unidentified).identified = false;
  add_samples(unidentified, SyntheticSample(test::kProcess).leaf(program_.address("leaf"), 1), 2);
  hits_->add(unidentified);
  const auto& by_payer = hit().hits_by_payer;
  EXPECT_THAT(by_payer,
              ElementsAre(Key(0), Key(kUser), Key(kOfContainer), Key(FileNamer::kUnknownUser)));
  EXPECT_THAT(hit().users,
              ElementsAre(0, kUser, kSubordinate, kOfContainer, FileNamer::kUnknownUser));
  EXPECT_EQ(by_payer.at(0).samples, 2U);
  EXPECT_EQ(by_payer.at(kUser).samples, 4U);
  EXPECT_EQ(hit().samples_by_offset.at(offset("leaf")), 10U);
}

TEST_F(FileHitsTest, AUserWithManyUidsLeavesPlaceForTheProcessesOfOthers) {
  std::uint32_t tgid = 100;
  const auto add = [&](std::uint32_t uid, const std::string& own_path) {
    ProcessSnapshot process = process_of(uid);
    process.key.tgid = ++tgid;
    test::image_of(process).mappings.at(1).own_path = std::make_shared<const std::string>(own_path);
    add_samples(process, SyntheticSample(test::kProcess).leaf(program_.address("leaf"), 1), 1);
    hits_->add(process);
  };
  for (std::uint32_t i = 0; i < 100; ++i) add(100'000 + i, "/subordinate");
  add(kUser + 1, "/other");
  for (std::uint32_t i = 0; i < 200; ++i) add(2000 + i, "/others");
  add(0, "/root");
  std::map<std::string, int> paths;
  for (const HitProcess& process : hit().processes) ++paths[*process.own_path];
  EXPECT_EQ(paths, (std::map<std::string, int>{
                       {"/subordinate", 2}, {"/other", 1}, {"/others", 125}, {"/root", 1}}));
}

}  // namespace
}  // namespace profd
