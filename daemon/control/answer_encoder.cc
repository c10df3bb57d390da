#include "daemon/control/answer_encoder.h"

#include <utility>

namespace profd {
namespace {

std::size_t entries_of(const WindowShares& window) {
  return 1 + window.groups.size() + window.processes.size();
}

}  // namespace

template <class Answer>
boost::asio::awaitable<Result<std::string>> AnswerEncoder::encode_entries(bool is_privileged,
                                                                          std::size_t entries,
                                                                          Answer answer) {
  if (entries <= kMaxEntriesAtOnce) co_return to_json(answer);
  // The answer is released there too.
  auto job = [encoded = std::move(answer)]() -> Result<std::string> { return to_json(encoded); };
  auto running = (is_privileged ? privileged_ : users_).run(std::move(job));
  co_return co_await std::move(running);
}

boost::asio::awaitable<Result<std::string>> AnswerEncoder::encode(bool is_privileged,
                                                                  ResultInfo result) {
  const std::size_t files = result.files.size();
  return encode_entries(is_privileged, files, std::move(result));
}

boost::asio::awaitable<Result<std::string>> AnswerEncoder::encode(bool is_privileged,
                                                                  History history) {
  std::size_t entries = 0;
  for (const WindowShares& window : history.windows) entries += entries_of(window);
  return encode_entries(is_privileged, entries, std::move(history));
}

boost::asio::awaitable<Result<std::string>> AnswerEncoder::encode(bool is_privileged,
                                                                  WindowShares window) {
  const std::size_t entries = entries_of(window);
  return encode_entries(is_privileged, entries, std::move(window));
}

}  // namespace profd
