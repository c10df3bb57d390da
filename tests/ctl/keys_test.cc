#include "ctl/output/keys.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Key key(KeyCode code) { return {.code = code}; }
Key character(char c) { return {.character = c}; }

TEST(Keys, SequencesOfTheUsualTerminals) {
  const std::pair<const char*, KeyCode> table[] = {
      {"\x1b[A", KeyCode::kUp},        {"\x1bOA", KeyCode::kUp},    {"\x1b[B", KeyCode::kDown},
      {"\x1b[C", KeyCode::kRight},     {"\x1b[D", KeyCode::kLeft},  {"\x1b[5~", KeyCode::kPageUp},
      {"\x1b[6~", KeyCode::kPageDown}, {"\x1b[1~", KeyCode::kHome}, {"\x1b[H", KeyCode::kHome},
      {"\x1bOF", KeyCode::kEnd},       {"\x1b[4~", KeyCode::kEnd},  {"\t", KeyCode::kTab},
      {"\x1bOP", KeyCode::kHelp},      {"\x1b[[A", KeyCode::kHelp}, {"\x1b[21~", KeyCode::kQuit},
      {"\x1b", KeyCode::kEscape}};
  for (const auto& [bytes, code] : table) {
    EXPECT_THAT(KeyReader().read(bytes), ElementsAre(key(code))) << bytes + 1;
  }
}

TEST(Keys, SeveralKeysComeAtOnce) {
  EXPECT_THAT(KeyReader().read("P\x1b[B\x1b[Bq"), ElementsAre(character('P'), key(KeyCode::kDown),
                                                              key(KeyCode::kDown), character('q')));
}

TEST(Keys, ASequenceThatIsCutWaitsForItsRest) {
  KeyReader reader;
  EXPECT_THAT(reader.read("j\x1b["), ElementsAre(character('j')));
  EXPECT_THAT(reader.read("6"), IsEmpty());
  EXPECT_THAT(reader.read("~k"), ElementsAre(key(KeyCode::kPageDown), character('k')));
}

TEST(Keys, OtherSequencesAndBytesAreSkipped) {
  EXPECT_THAT(KeyReader().read("\x1b[15;2~a\x01\xc3\xa4\x7f"
                               "b"),
              ElementsAre(character('a'), character('b')));
  EXPECT_THAT(KeyReader().read("\x1b[" + std::string(1000, '1') + "q").size(), testing::Ge(1U));
}

}  // namespace
}  // namespace profd
