// What a request of the page is answered with.

#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "formats/base/result.h"

namespace profd {

struct WebReply {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body{};
  std::string file_name{};  // of a download; empty: the browser shows it
  // The answer needs time to pass without any work: after `wait`, `then` gives it.
  std::function<WebReply()> then{};
  std::chrono::milliseconds wait{0};
};

// The error as JSON, with its HTTP status (docs/api.md).
[[nodiscard]] WebReply reply_of(const Error& error);
[[nodiscard]] WebReply reply_of_text(Result<std::string> json);

}  // namespace profd
