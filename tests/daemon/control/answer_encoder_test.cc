#include "daemon/control/answer_encoder.h"

#include <time.h>

#include <cstdint>
#include <optional>

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

class AnswerEncoderTest : public testing::TestWithParam<bool> {
 protected:
  std::string encode(ResultInfo result) {
    std::optional<Result<std::string>> json;
    const auto keep = [this, &json](ResultInfo moved) -> boost::asio::awaitable<void> {
      auto encoding = encoder_.encode(GetParam(), std::move(moved));
      json = co_await std::move(encoding);
    };
    spawn(io_, keep(std::move(result)));
    io_.run();
    io_.restart();
    return json && *json ? **json : "";
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
  ResultInfo result = result_of(200'000);
  const std::int64_t thread_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
  const std::int64_t process_before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  const std::string json = encode(std::move(result));
  const std::int64_t thread = now_ns(CLOCK_THREAD_CPUTIME_ID) - thread_before;
  const std::int64_t process = now_ns(CLOCK_PROCESS_CPUTIME_ID) - process_before;
  EXPECT_FALSE(json.empty());
  EXPECT_LT(thread, process / 2);
}

INSTANTIATE_TEST_SUITE_P(Callers, AnswerEncoderTest, testing::Bool());

}  // namespace
}  // namespace profd
