#include "formats/base/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;

std::string text_of(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += std::to_string(text.size() * 7919) + " ";
  return text;
}

ErrorCode code_of(const Result<std::string>& result) {
  EXPECT_FALSE(result);
  return result ? ErrorCode::kInternal : result.error().code;
}

TEST(Gzip, PacksWhatGunzipReads) {
  const test::ScratchDirectory scratch;
  for (const int level : {1, 3, 6, 12}) {
    const auto path = scratch.write("packed.gz", pack_gzip(text_of(100000), level));
    EXPECT_EQ(test::output_of("gzip -dc " + path.string()), text_of(100000)) << level;
  }
}

TEST(Gzip, AFieldOfTheHeaderIsSkippedByReadersAndFound) {
  const test::ScratchDirectory scratch;
  const std::string plain = pack_gzip(text_of(1000), 6);
  const std::string file = add_gzip_field(plain, "PW", "times");
  EXPECT_EQ(file.size(), plain.size() + kGzipFieldBytes + 5);
  const auto path = scratch.write("packed.gz", file);
  EXPECT_EQ(test::output_of("gzip -dc " + path.string()), text_of(1000));
  EXPECT_EQ(test::output_of("python3 -c \"import gzip; print(len(gzip.open('" + path.string() +
                            "').read()))\""),
            std::to_string(text_of(1000).size()) + "\n");
  EXPECT_EQ(unpack_gzip(file, 1 << 20).value(), text_of(1000));
  EXPECT_EQ(find_gzip_field(file, "PW"), "times");
  EXPECT_EQ(find_gzip_field(file, "PX"), std::nullopt);
  EXPECT_EQ(find_gzip_field(plain, "PW"), std::nullopt);
}

TEST(Gzip, AFieldThatIsCutIsNotFound) {
  const std::string file = add_gzip_field(pack_gzip("text", 6), "PW", "times");
  const std::size_t end = 10 + kGzipFieldBytes + 5;
  EXPECT_TRUE(find_gzip_field(file.substr(0, end), "PW"));
  for (std::size_t size = 0; size < end; ++size) {
    EXPECT_FALSE(find_gzip_field(file.substr(0, size), "PW")) << size;
  }
  std::string longer = file;
  longer[14] = '\x7f';  // the size of the data, beyond that of all fields
  EXPECT_FALSE(find_gzip_field(longer, "PW"));
}

TEST(Gzip, UnpacksWhatGzipWrote) {
  const test::ScratchDirectory scratch;
  const auto path = scratch.write("a text file", text_of(300000));
  const std::string ignored = test::output_of("gzip --keep '" + path.string() + "'");
  const auto unpacked = unpack_gzip(test::read_file(path.string() + ".gz"), 1 << 20);
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(*unpacked, text_of(300000));
}

TEST(Gzip, PacksEqualBytesEqually) {
  const std::string packed = pack_gzip(text_of(5000), 6);
  EXPECT_EQ(pack_gzip(text_of(5000), 6), packed);
  EXPECT_EQ(packed.substr(4, 4), std::string(4, '\0')) << "the time in the header";
}

TEST(Gzip, UnpacksMembersOneAfterTheOther) {
  const std::string file = pack_gzip("", 6) + pack_gzip(text_of(200000), 6) + pack_gzip("end", 1);
  const auto unpacked = unpack_gzip(file, 1 << 20);
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(*unpacked, text_of(200000) + "end");
}

TEST(Gzip, HoldsItsLimitOverAllMembers) {
  const std::string one = pack_gzip(std::string(10000, 'x'), 6);
  EXPECT_TRUE(unpack_gzip(one, 10000));
  EXPECT_EQ(code_of(unpack_gzip(one, 9999)), ErrorCode::kTooLarge);
  EXPECT_TRUE(unpack_gzip(one + one, 20000));
  EXPECT_EQ(code_of(unpack_gzip(one + one, 19999)), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of(unpack_gzip(one, 0)), ErrorCode::kTooLarge);
  EXPECT_TRUE(unpack_gzip(pack_gzip("", 6), 0));
}

TEST(Gzip, TheStatedSizeIsThatOfTheLastMember) {
  EXPECT_EQ(stated_gzip_size(pack_gzip(std::string(70'000, 'x'), 1)), 70'000U);
  EXPECT_EQ(stated_gzip_size(pack_gzip("", 1)), 0U);
  EXPECT_EQ(stated_gzip_size(pack_gzip("aaa", 1) + pack_gzip("bb", 1)), 2U);
  EXPECT_EQ(stated_gzip_size("abc"), 0U);
}

// The stated size is a hint alone: of a bomb, which states 0 or 4 GiB, no more is unpacked than the
// limit.
TEST(Gzip, DoesNotRelyOnTheStatedSize) {
  std::string bomb = pack_gzip(std::string(50000000, '\0'), 6);
  EXPECT_LT(bomb.size(), 100000U);
  EXPECT_EQ(code_of(unpack_gzip(bomb, 1 << 20)), ErrorCode::kTooLarge);
  for (const char byte : {'\0', '\xff'}) {
    bomb.replace(bomb.size() - 4, 4, 4, byte);
    EXPECT_EQ(code_of(unpack_gzip(bomb, 1 << 20)), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(unpack_gzip(bomb, 1 << 30)), ErrorCode::kMalformed);
  }
}

TEST(Gzip, RefusesWhatIsMalformed) {
  const std::string file = pack_gzip(text_of(5000), 6);
  for (std::size_t size = 0; size < file.size(); size += 7) {
    EXPECT_EQ(code_of(unpack_gzip(file.substr(0, size), 1 << 20)), ErrorCode::kMalformed) << size;
  }
  EXPECT_EQ(code_of(unpack_gzip(file + '\0', 1 << 20)), ErrorCode::kMalformed);
  EXPECT_EQ(code_of(unpack_gzip("plain text", 1 << 20)), ErrorCode::kMalformed);
  std::string wrong_checksum = file;
  wrong_checksum[file.size() - 8] ^= 1;
  EXPECT_EQ(code_of(unpack_gzip(wrong_checksum, 1 << 20)), ErrorCode::kMalformed);
}

TEST(Gzip, KnowsWhatIsCut) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  const std::string first = pack_gzip("first", 6);
  const std::string file = first + pack_gzip(text_of(200000), 6);
  for (std::size_t size = 2; size < file.size(); ++size) {
    if (size == first.size()) continue;  // that is a whole file
    EXPECT_TRUE(is_cut_gzip(file.substr(0, size), kMaxBytes)) << size;
    if (size > 300) size += 97;
  }
  EXPECT_FALSE(is_cut_gzip(file, kMaxBytes));
  EXPECT_FALSE(is_cut_gzip(file + "tail", kMaxBytes));
  EXPECT_FALSE(is_cut_gzip("plain text", kMaxBytes));
  EXPECT_FALSE(is_cut_gzip(file.substr(0, file.size() - 1), 1000)) << "no more than that is read";
  std::string wrong_checksum = file;
  wrong_checksum[file.size() - 8] ^= 1;
  EXPECT_FALSE(is_cut_gzip(wrong_checksum, kMaxBytes));
}

}  // namespace
}  // namespace profd
