// Code objects: their numbers, what is kept of them, and who has room for them.

#include "collectors/interpreters/codes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr ProcessKey kInterpreting{.tgid = 42, .exec_id = 1, .start_ns = 7};
constexpr ProcessKey kSecond{.tgid = 43, .exec_id = 1, .start_ns = 7};
constexpr std::uint32_t kUser = 1000;

// What the programs would be asked to announce.
class AskedIds final : public InterpreterMaps {
 public:
  void put_runtime(std::uint16_t /*number*/, const profd_runtime& /*runtime*/) override {}
  void put_layout(std::uint8_t /*number*/, const profd_layout& /*layout*/) override {}
  void ask_again(std::uint64_t id) override { asked.push_back(id); }

  std::vector<std::uint64_t> asked;
};

RawCode code_of(std::string_view name, std::string_view file = "/app/main.py",
                std::string_view lines = "lines") {
  RawCode code{.kind = PROFD_RUNTIME_PYTHON,
               .layout = 4,
               .cut = 0,
               .address = 0x7f0000001000,
               .first_line = 12,
               .units = 30};
  code.texts[PROFD_CODE_NAME] = {.bytes = name, .kind = PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_FILE] = {.bytes = file, .kind = PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_LINES] = {.bytes = lines, .kind = PROFD_TEXT_BYTES};
  return code;
}

class InterpretedCodesTest : public testing::Test {
 protected:
  void announce(std::uint64_t id, const RawCode& code, const ProcessKey& process = kInterpreting,
                std::uint32_t user = 0) {
    codes_.on_code({.process = process, .time_ns = 1, .id = id, .code = code}, user);
  }
  std::uint32_t number_of(std::uint64_t id, const ProcessKey& process = kInterpreting,
                          std::uint32_t user = 0) {
    return codes_.number_of(process, id, user);
  }
  // "": it was not announced.
  std::string name_of(std::uint32_t number, const ProcessKey& process = kInterpreting) {
    const auto table = codes_.share(process);
    const KeptCode* const code = table ? table->find(number) : nullptr;
    return code == nullptr ? "" : std::string(code->raw().texts[PROFD_CODE_NAME].bytes);
  }
  void pass(std::chrono::milliseconds time) {
    now_ += time;
    codes_.tick(now_);
  }

  std::set<std::uint32_t> gone_;  // pids
  UserRefusals refusals_;
  InterpretedCodes codes_{&refusals_,
                          [this](const ProcessKey& key) { return gone_.contains(key.tgid); }};
  AskedIds maps_;
  InterpretedCodes::Clock::time_point now_ = InterpretedCodes::Clock::time_point() + 1h;
};

TEST_F(InterpretedCodesTest, AnIdHasOneNumberBeforeAndAfterItsAnnouncement) {
  const std::uint32_t number = number_of(0xaaaa);
  EXPECT_NE(number, 0U);
  EXPECT_EQ(name_of(number), "");
  announce(0xaaaa, code_of("work"));
  EXPECT_EQ(number_of(0xaaaa), number);
  EXPECT_EQ(name_of(number), "work");
}

TEST_F(InterpretedCodesTest, AnAnnouncementMayComeFirst) {
  announce(0xaaaa, code_of("work"));
  announce(0xbbbb, code_of("play"));
  EXPECT_EQ(name_of(number_of(0xbbbb)), "play");
  EXPECT_EQ(name_of(number_of(0xaaaa)), "work");
}

TEST_F(InterpretedCodesTest, ANumberIsOfOneProcess) {
  announce(0xaaaa, code_of("work"));
  announce(0xaaaa, code_of("play"), kSecond);
  EXPECT_EQ(name_of(number_of(0xaaaa)), "work");
  EXPECT_EQ(name_of(number_of(0xaaaa, kSecond), kSecond), "play");
  EXPECT_EQ(codes_.stats().processes, 2U);
}

TEST_F(InterpretedCodesTest, AllOfACodeObjectIsKept) {
  RawCode code = code_of("work", "/app/a.py", std::string_view("\x80\x00\x81", 3));
  code.texts[PROFD_CODE_QUALIFIER] = {.bytes = std::string_view("C\0.\0", 4),
                                      .kind = PROFD_TEXT_UCS_2};
  code.cut = 1;
  announce(1, code);
  const auto table = codes_.share(kInterpreting);
  const KeptCode* const kept = table->find(1);
  ASSERT_NE(kept, nullptr);
  const RawCode raw = kept->raw();
  EXPECT_EQ(raw.kind, PROFD_RUNTIME_PYTHON);
  EXPECT_EQ(raw.layout, 4U);
  EXPECT_EQ(raw.cut, 1U);
  EXPECT_EQ(raw.address, 0x7f0000001000U);
  EXPECT_EQ(raw.first_line, 12U);
  EXPECT_EQ(raw.units, 30U);
  for (std::size_t i = 0; i < raw.texts.size(); ++i) {
    EXPECT_EQ(raw.texts[i].bytes, code.texts[i].bytes) << i;
    EXPECT_EQ(raw.texts[i].kind, code.texts[i].kind) << i;
  }
  EXPECT_EQ(table->kind(), PROFD_RUNTIME_PYTHON);
}

TEST_F(InterpretedCodesTest, ACodeObjectWithoutFileHasNone) {
  RawCode code = code_of("work");
  code.texts[PROFD_CODE_FILE] = {};
  announce(1, code);
  const RawText file = codes_.share(kInterpreting)->find(1)->raw().texts[PROFD_CODE_FILE];
  EXPECT_EQ(file.kind, PROFD_TEXT_ABSENT);
  EXPECT_EQ(file.bytes, "");
}

TEST_F(InterpretedCodesTest, EqualFileNamesAreKeptOnce) {
  const std::string file(400, 'f');
  announce(1, code_of("a", file));
  const std::uint64_t with_file = codes_.stats().bytes;
  announce(2, code_of("b", file));
  EXPECT_LT(codes_.stats().bytes - with_file, file.size());
  EXPECT_EQ(codes_.share(kInterpreting)->find(2)->raw().texts[PROFD_CODE_FILE].bytes, file);
}

TEST_F(InterpretedCodesTest, TenThousandTakeLessThanFourMegabytes) {
  const std::string lines(160, 'l');
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    announce(i, code_of("a_name_of_usual_length", "/app/module" + std::to_string(i / 30), lines));
  }
  EXPECT_EQ(codes_.stats().codes, 10'000U);
  EXPECT_LT(codes_.stats().bytes, std::uint64_t{4} << 20);
}

// Two CPUs announce the same code at once.
TEST_F(InterpretedCodesTest, ARepeatedAnnouncementChangesNothing) {
  announce(1, code_of("work"));
  const std::uint64_t bytes = codes_.stats().bytes;
  announce(1, code_of("other"));
  EXPECT_EQ(name_of(1), "work");
  EXPECT_EQ(codes_.stats().bytes, bytes);
  EXPECT_EQ(codes_.stats().announced, 2U);
  EXPECT_EQ(codes_.stats().repeated, 1U);
  EXPECT_EQ(codes_.stats().codes, 1U);
}

TEST_F(InterpretedCodesTest, AProcessThatInterpretsNothingHasNoTable) {
  EXPECT_EQ(codes_.share(kInterpreting), nullptr);
}

TEST_F(InterpretedCodesTest, ASharedTableNeverChanges) {
  announce(1, code_of("one"));
  const std::uint32_t later = number_of(2);
  const auto before = codes_.share(kInterpreting);
  announce(2, code_of("two"));
  // In the same block, and in further ones.
  constexpr std::uint64_t kMany = 3 * InterpretedTable::kBlock;
  for (std::uint64_t id = 3; id < kMany; ++id) announce(id, code_of("more"));
  EXPECT_EQ(before->size(), 2U);
  EXPECT_EQ(before->find(later), nullptr);
  EXPECT_EQ(before->find(3), nullptr);
  const auto after = codes_.share(kInterpreting);
  EXPECT_EQ(after->size(), kMany - 1);
  EXPECT_NE(after->find(later), nullptr);
  EXPECT_EQ(after->find(1), before->find(1)) << "the code objects themselves are not copied";
  announce(kMany, code_of("last"));
  EXPECT_EQ(after->find(kMany), nullptr);
  EXPECT_EQ(name_of(kMany), "last");
}

TEST_F(InterpretedCodesTest, AnIdThatIsNotAnnouncedIsAskedForEverySecond) {
  codes_.set_maps(&maps_);
  (void)number_of(0xaaaa);
  pass(10ms);
  pass(900ms);
  EXPECT_TRUE(maps_.asked.empty());
  pass(100ms);
  EXPECT_EQ(maps_.asked, (std::vector<std::uint64_t>{0xaaaa}));
  pass(900ms);
  EXPECT_EQ(maps_.asked.size(), 1U);
  pass(100ms);
  EXPECT_EQ(maps_.asked.size(), 2U);
  EXPECT_EQ(codes_.stats().asked_again, 2U);
  announce(0xaaaa, code_of("work"));
  pass(2s);
  EXPECT_EQ(maps_.asked.size(), 2U);
}

TEST_F(InterpretedCodesTest, AnAnnouncedIdIsNotAskedFor) {
  codes_.set_maps(&maps_);
  announce(0xaaaa, code_of("work"));
  (void)number_of(0xaaaa);
  (void)number_of(0xbbbb);
  announce(0xbbbb, code_of("play"));
  pass(1s);
  pass(2s);
  EXPECT_TRUE(maps_.asked.empty());
}

TEST_F(InterpretedCodesTest, AllUnannouncedIdsHaveTheirTurn) {
  codes_.set_maps(&maps_);
  constexpr std::size_t kIds = 3 * InterpretedCodes::kMaxAsked;
  for (std::uint64_t id = 1; id <= kIds; ++id) {
    (void)number_of(id, id % 2 == 0 ? kInterpreting : kSecond);
  }
  pass(1ms);
  for (int seconds = 1; seconds <= 4; ++seconds) {
    const std::size_t before = maps_.asked.size();
    pass(1s);
    EXPECT_LE(maps_.asked.size() - before, InterpretedCodes::kMaxAsked);
  }
  EXPECT_EQ(std::set(maps_.asked.begin(), maps_.asked.end()).size(), kIds);
}

TEST_F(InterpretedCodesTest, WithoutMapsNothingIsAsked) {
  codes_.set_maps(&maps_);
  codes_.set_maps(nullptr);
  (void)number_of(1);
  pass(1s);
  pass(2s);
  EXPECT_TRUE(maps_.asked.empty());
}

// Announces long code of a process until nothing more is kept, and returns the bytes that are.
class CodeShareTest : public InterpretedCodesTest {
 protected:
  std::uint64_t fill(const ProcessKey& process, std::uint32_t user) {
    const std::uint64_t before = codes_.stats().bytes;
    const std::string lines(PROFD_MAX_CODE_LINES_BYTES, 'l');
    const std::uint64_t refused = codes_.stats().refused;
    for (std::uint64_t id = 1; codes_.stats().refused == refused; ++id) {
      announce(id, code_of("long", "/app/main.py", lines), process, user);
    }
    return codes_.stats().bytes - before;
  }
  static ProcessKey process(std::uint32_t tgid) {
    return {.tgid = tgid, .exec_id = 1, .start_ns = 7};
  }

  static constexpr std::uint64_t kOneMore = 2 * PROFD_MAX_CODE_LINES_BYTES;
};

TEST_F(CodeShareTest, AUserHasAnEighthAndUsersHaveHalf) {
  EXPECT_NEAR(static_cast<double>(fill(process(1), kUser)), InterpretedCodes::kMaxBytesOfUser,
              kOneMore);
  EXPECT_LT(fill(process(2), kUser), kOneMore) << "another process of the user";
  for (std::uint32_t user = 1; user < 5; ++user) (void)fill(process(10 + user), kUser + user);
  EXPECT_NEAR(static_cast<double>(codes_.stats().bytes), InterpretedCodes::kMaxBytesOfUsers,
              2 * kOneMore);
  EXPECT_NEAR(static_cast<double>(fill(process(3), 0)),
              InterpretedCodes::kMaxBytes - InterpretedCodes::kMaxBytesOfUsers, 3 * kOneMore)
      << "root has the other half";
}

TEST_F(CodeShareTest, WhatIsRefusedCountsByUserAndKnownCodeStays) {
  (void)fill(kInterpreting, kUser);
  EXPECT_EQ(name_of(1), "long");
  const std::uint32_t known = number_of(1, kInterpreting, kUser);
  EXPECT_NE(known, 0U);
  EXPECT_TRUE(refusals_.users().empty()) << "they are counted once a second";
  pass(1s);
  const auto users = refusals_.users();
  ASSERT_EQ(users.size(), 1U);
  EXPECT_EQ(users[0].uid, kUser);
  EXPECT_EQ(users[0].refused.at(InterpretedCodes::kRefused), 1U);
}

// Mutation: only ids of samples are asked for.
TEST_F(CodeShareTest, CodeThatHadNoRoomIsAskedForAgain) {
  codes_.set_maps(&maps_);
  (void)fill(kSecond, kUser);
  const std::uint64_t refused_id = codes_.stats().codes + 1;
  pass(1s);
  pass(2s);
  EXPECT_EQ(maps_.asked, (std::vector<std::uint64_t>{refused_id}));
  gone_ = {kSecond.tgid};
  codes_.forget_unless([](const ProcessKey&) { return false; });
  pass(2s);
  EXPECT_EQ(maps_.asked.size(), 1U) << "its process has ended";
}

TEST_F(CodeShareTest, AProcessHasSoManyCodeObjects) {
  for (std::uint64_t id = 1; id <= InterpretedCodes::kMaxCodes; ++id) {
    ASSERT_NE(number_of(id), 0U) << id;
  }
  EXPECT_EQ(number_of(InterpretedCodes::kMaxCodes + 1), 0U);
  EXPECT_NE(number_of(7), 0U) << "a known one";
  EXPECT_NE(number_of(1, kSecond), 0U) << "another process";
  EXPECT_EQ(codes_.stats().refused, 1U);
}

TEST_F(CodeShareTest, ForgottenProcessesLeaveTheirRoom) {
  const std::uint64_t bytes = fill(kInterpreting, kUser);
  (void)number_of(1, kSecond);
  gone_ = {kInterpreting.tgid};
  codes_.forget_unless([](const ProcessKey& key) { return key == kInterpreting; });
  EXPECT_EQ(codes_.stats().processes, 2U) << "a session needs it";
  codes_.forget_unless([](const ProcessKey&) { return false; });
  EXPECT_EQ(codes_.stats().processes, 1U) << "the other one has not ended";
  EXPECT_EQ(codes_.stats().codes, 0U);
  EXPECT_EQ(codes_.share(kInterpreting), nullptr);
  gone_.insert(kSecond.tgid);
  codes_.forget_unless([](const ProcessKey&) { return false; });
  EXPECT_EQ(codes_.stats().bytes, 0U);
  EXPECT_EQ(fill(kSecond, kUser), bytes) << "all of the user's room";
}

TEST_F(CodeShareTest, AProgramThatAnotherOneReplacedIsForgotten) {
  ProcessKey next = kInterpreting;
  next.exec_id = 2;
  announce(1, code_of("before"));
  announce(1, code_of("after"), next);
  codes_.forget_unless([](const ProcessKey&) { return false; });
  EXPECT_EQ(codes_.share(kInterpreting), nullptr);
  EXPECT_EQ(name_of(1, next), "after");
}

}  // namespace
}  // namespace profd
