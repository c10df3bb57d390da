// The symbolizer as its user sees it: when its child starts and ends, and what becomes of requests
// that a child does not answer as it should.

#include "collectors/symbolizer/symbolizer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sandbox/packets.h"
#include "collectors/symbolizer/messages.h"
#include "tests/collectors/forked.h"
#include "tests/collectors/symbolizer/corpus.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

class SymbolizerTest : public testing::Test {
 protected:
  // The loss of all addresses.
  DwarfLoss loss_of_request(Symbolizer& symbolizer) {
    const auto answers = symbolizer.find_frames({.file = program.get()}, addresses, 1500ms);
    EXPECT_TRUE(answers) << answers.error().message;
    if (!answers || answers->size() != addresses.size()) return DwarfLoss::kNone;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      EXPECT_EQ((*answers)[i].names.address, addresses[i]);
      EXPECT_EQ((*answers)[i].loss, answers->front().loss);
    }
    return answers->front().loss;
  }

  UniqueFd program = open_for_reading(corpus_path("gcc"));
  std::vector<std::uint64_t> addresses = {0, 1};  // in no unit
};

TEST_F(SymbolizerTest, TheChildStartsWithTheFirstRequestAndStays) {
  Symbolizer symbolizer;
  EXPECT_EQ(symbolizer.child(), -1);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  const pid_t child = symbolizer.child();
  EXPECT_GT(child, 0);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  EXPECT_EQ(symbolizer.child(), child);
  EXPECT_EQ(symbolizer.failures(), 0U);
}

TEST_F(SymbolizerTest, TheCpuTimeOfRequestsIsAddedUp) {
  Symbolizer symbolizer({.wall_time = 200ms});
  EXPECT_EQ(symbolizer.cpu_time(), 0ns);
  // The kernel may not have added the time of the last moments yet.
  for (int i = 0; i < 1000 && symbolizer.cpu_time() == 0ns; ++i) {
    EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  }
  const auto first = symbolizer.cpu_time();
  EXPECT_GT(first, 0ns);
  EXPECT_LT(first, 1s);
  ::kill(symbolizer.child(), SIGSTOP);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kTimeLimit);
  EXPECT_GE(symbolizer.cpu_time(), first + 200ms);
}

TEST_F(SymbolizerTest, AChildThatIsEndedIsReplacedByTheNextRequest) {
  Symbolizer symbolizer;
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  const pid_t child = symbolizer.child();
  symbolizer.end_child();
  EXPECT_EQ(::kill(child, 0), -1);  // gone, and reaped
  EXPECT_EQ(symbolizer.child(), -1);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  EXPECT_GT(symbolizer.child(), 0);
}

TEST_F(SymbolizerTest, AChildThatWasIdleForLongIsReplaced) {
  Symbolizer symbolizer({.idle_time = 5100ms});  // 5 s of which are the margin
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  const pid_t child = symbolizer.child();
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  EXPECT_NE(symbolizer.child(), child);
}

TEST_F(SymbolizerTest, AChildThatKeepsTooMuchMemoryIsEnded) {
  Symbolizer symbolizer({.kept_bytes = 4096});
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  EXPECT_EQ(symbolizer.child(), -1);
  EXPECT_EQ(symbolizer.failures(), 0U);
}

TEST_F(SymbolizerTest, AChildThatHangsIsKilledAtTheTimeLimit) {
  Symbolizer symbolizer({.wall_time = 200ms});
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
  ::kill(symbolizer.child(), SIGSTOP);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kTimeLimit);
  EXPECT_EQ(symbolizer.failures(), 1U);
  EXPECT_EQ(loss_of_request(symbolizer), DwarfLoss::kNoUnit);
}

TEST_F(SymbolizerTest, AddressesBeyondTheLimitAreNotAskedFor) {
  Symbolizer symbolizer;
  std::vector<std::uint64_t> many(kMaxDwarfAddresses + 2);
  std::iota(many.begin(), many.end(), 0U);
  const auto answers = symbolizer.find_frames({.file = program.get()}, many, 1500ms);
  ASSERT_TRUE(answers) << answers.error().message;
  ASSERT_EQ(answers->size(), many.size());
  EXPECT_EQ(std::ranges::count(*answers, DwarfLoss::kTooMany, &DwarfAddress::loss), 2);
  EXPECT_EQ(answers->back().names.address, many.back());
  EXPECT_EQ(answers->back().names.source, NameSource::kOverBudget);
}

TEST_F(SymbolizerTest, NoTimeIsNoAnswer) {
  Symbolizer symbolizer;
  const auto answers = symbolizer.find_frames({.file = program.get()}, addresses, 0ns);
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ(answers->front().loss, DwarfLoss::kCpuTime);
}

// A child that answers each request but the first with these bytes.
sandbox::Spawn child_that_answers(const std::string& bytes) {
  return [bytes](int socket) -> Result<pid_t> {
    return fork_into([&] {
      sandbox::Request request;
      for (bool is_first = true;; is_first = false) {
        const auto received = sandbox::receive_packet(socket, sandbox::buffer_of(request));
        if (!received || received->bytes == 0) return 0;
        const auto sealed = sandbox::make_sealed(is_first ? std::string_view() : bytes);
        const int fd = sealed->get();
        if (!sandbox::send_packet(socket, sandbox::bytes_of(sandbox::Answer{}), {&fd, 1})) return 1;
      }
    });
  };
}

// A child that answers nothing but the first request, and takes CPU time.
Result<pid_t> start_child_that_loops(int socket) {
  return fork_into([&] {
    sandbox::Request request;
    const auto received = sandbox::receive_packet(socket, sandbox::buffer_of(request));
    const auto sealed = sandbox::make_sealed({});
    const int fd = sealed->get();
    if (!received ||
        !sandbox::send_packet(socket, sandbox::bytes_of(sandbox::Answer{}), {&fd, 1})) {
      return 1;
    }
    ::alarm(60);  // beyond the wall time of a request
    for (volatile bool is_looping = true; is_looping;) {
    }
    return 0;
  });
}

// The symbolizer counts no more time than it lets a child that it kills have.
TEST(LoopingChildTest, HasHalfASecondMoreThanTheTimeLeftForAFileOfAUser) {
  const UniqueFd file(::memfd_create("profd_looping", MFD_CLOEXEC));
  ASSERT_EQ(::fchown(file.get(), 54'321, 54'321), 0);
  const std::vector<std::uint64_t> addresses = {1};
  Symbolizer symbolizer({}, &start_child_that_loops);
  const auto answers = symbolizer.find_frames({.file = file.get()}, addresses, 100ms);
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ(answers->front().loss, DwarfLoss::kTimeLimit);
  EXPECT_LE(symbolizer.cpu_time(), 600ms);
  EXPECT_EQ(symbolizer.failures(), 1U);
}

DwarfAddress good_answer(std::uint64_t address) {
  DwarfAddress answer;
  answer.names.address = address;
  answer.names.frames = {{.name = "f", .system_name = "_Z1fv", .file = "f.cc", .line = 1}};
  answer.names.source = NameSource::kDwarf;
  return answer;
}

struct InvalidAnswer {
  const char* name;
  std::function<void(std::vector<DwarfAddress>&)> change;
};

class InvalidAnswerTest : public testing::TestWithParam<InvalidAnswer> {};

TEST_P(InvalidAnswerTest, IsAFault) {
  const UniqueFd program = open_for_reading(corpus_path("gcc"));
  const std::vector<std::uint64_t> addresses = {1, 2};
  std::vector<DwarfAddress> answers = {good_answer(1), good_answer(2)};
  Symbolizer good({}, child_that_answers(sandbox::encode(answers)));
  EXPECT_EQ(good.find_frames({.file = program.get()}, addresses, 1s)->front().loss,
            DwarfLoss::kNone);
  GetParam().change(answers);
  Symbolizer bad({}, child_that_answers(sandbox::encode(answers)));
  const auto lost = bad.find_frames({.file = program.get()}, addresses, 1s);
  ASSERT_TRUE(lost) << lost.error().message;
  ASSERT_EQ(lost->size(), 2U);
  for (const DwarfAddress& answer : *lost) {
    EXPECT_EQ(answer.loss, DwarfLoss::kFault);
    EXPECT_TRUE(answer.names.frames.empty());
  }
  EXPECT_EQ(bad.failures(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    SymbolizerTest, InvalidAnswerTest,
    testing::Values(
        InvalidAnswer{"OneMissing", [](auto& answers) { answers.pop_back(); }},
        InvalidAnswer{"OneTooMany", [](auto& answers) { answers.push_back(good_answer(3)); }},
        InvalidAnswer{"OtherAddress", [](auto& answers) { answers[1].names.address = 3; }},
        InvalidAnswer{"NotUtf8", [](auto& answers) { answers[1].names.frames[0].name = "\xff"; }},
        InvalidAnswer{"FileNotUtf8", [](auto& answers) { answers[1].file = "\xff"; }},
        InvalidAnswer{"NoName", [](auto& answers) { answers[1].names.frames[0].name.clear(); }},
        InvalidAnswer{"LongName",
                      [](auto& answers) {
                        answers[1].names.frames[0].name.assign(kMaxCodeNameBytes + 1, 'x');
                      }},
        InvalidAnswer{"TooManyFrames",
                      [](auto& answers) {
                        answers[1].names.frames.resize(kMaxFramesOfAddress + 1,
                                                       answers[1].names.frames[0]);
                      }},
        InvalidAnswer{"SourceOfAnother",
                      [](auto& answers) { answers[1].names.source = NameSource::kGo; }},
        InvalidAnswer{"UnknownLoss",
                      [](auto& answers) { answers[1].loss = static_cast<DwarfLoss>(99); }},
        InvalidAnswer{"NoAnswer", [](auto& answers) { answers.clear(); }}),
    [](const auto& answer) { return std::string(answer.param.name); });

}  // namespace
}  // namespace profd::test
