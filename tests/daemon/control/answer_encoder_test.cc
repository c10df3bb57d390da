#include "daemon/control/answer_encoder.h"

#include <time.h>

#include <cstdint>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "collectors/host/clock.h"
#include "daemon/base/coroutines.h"

namespace profd {
namespace {

ResultInfo result_of(std::size_t files) {
  ResultInfo result;
  result.result = "5f2c01ab";
  for (std::size_t i = 0; i < files; ++i) {
    result.files.push_back({.path = "profile-" + std::to_string(i) + ".prof", .bytes = i});
  }
  return result;
}

History history_of(std::size_t processes) {
  WindowShares window;
  window.processes.reserve(processes);
  for (std::size_t i = 0; i < processes; ++i) {
    ProcessShare process;
    process.pid = static_cast<std::uint32_t>(i);
    process.comm = "work";
    window.processes.push_back(std::move(process));
  }
  History history;
  history.windows.push_back(std::move(window));
  return history;
}

class AnswerEncoderTest : public testing::TestWithParam<bool> {
 protected:
  template <class Answer>
  std::string encode(Answer answer) {
    std::optional<Result<std::string>> json;
    const auto keep = [this, &json](Answer moved) -> boost::asio::awaitable<void> {
      auto encoding = encoder_.encode(GetParam(), std::move(moved));
      json = co_await std::move(encoding);
    };
    spawn(io_, keep(std::move(answer)));
    io_.run();
    io_.restart();
    return json && *json ? **json : "";
  }

  template <class Answer>
  void expect_encoded_elsewhere(Answer answer) {
    const std::int64_t thread_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    const std::int64_t process_before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    const std::string json = encode(std::move(answer));
    const std::int64_t thread = now_ns(CLOCK_THREAD_CPUTIME_ID) - thread_before;
    const std::int64_t process = now_ns(CLOCK_PROCESS_CPUTIME_ID) - process_before;
    EXPECT_FALSE(json.empty());
    EXPECT_LT(thread, process / 2);
  }

  boost::asio::io_context io_;
  AnswerEncoder encoder_;
};

TEST_P(AnswerEncoderTest, ALargeResultReadsAsASmallOneDoes) {
  for (const std::size_t files : {0, 1, 256, 257, 5000}) {
    EXPECT_EQ(encode(result_of(files)), to_json(result_of(files))) << files;
  }
}

TEST_P(AnswerEncoderTest, ALargeResultIsEncodedOnAnotherThread) {
  expect_encoded_elsewhere(result_of(200'000));
}

TEST_P(AnswerEncoderTest, SoIsALargeHistory) {
  EXPECT_EQ(encode(history_of(3)), to_json(history_of(3)));
  EXPECT_EQ(encode(history_of(300)), to_json(history_of(300)));
  expect_encoded_elsewhere(history_of(100'000));
  expect_encoded_elsewhere(std::move(history_of(100'000).windows.front()));
}

INSTANTIATE_TEST_SUITE_P(Callers, AnswerEncoderTest, testing::Bool());

}  // namespace
}  // namespace profd
