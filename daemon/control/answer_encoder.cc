#include "daemon/control/answer_encoder.h"

#include <utility>

namespace profd {

boost::asio::awaitable<Result<std::string>> AnswerEncoder::encode(bool is_privileged,
                                                                  ResultInfo result) {
  if (result.files.size() <= kMaxFilesAtOnce) co_return to_json(result);
  // The result is released there too.
  auto job = [encoded = std::move(result)]() -> Result<std::string> { return to_json(encoded); };
  auto running = (is_privileged ? privileged_ : users_).run(std::move(job));
  co_return co_await std::move(running);
}

}  // namespace profd
