// Answers about the state of the daemon, which unprivileged callers share: each is made at most
// once in a time, however many callers ask for it. The io thread takes some ms to make one, and any
// user may ask for it on 128 connections at a time.
//
// On the io thread.

#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace profd {

class SharedAnswers {
 public:
  // An answer is given again until it is so old.
  explicit SharedAnswers(std::chrono::milliseconds max_age) : max_age_(max_age) {}

  // The answer with this name: what `make` returns, now or earlier.
  [[nodiscard]] const std::string& find_or_make(std::string_view name,
                                                const std::function<std::string()>& make);

 private:
  struct Answer {
    std::string text;
    std::chrono::steady_clock::time_point made;
  };

  std::chrono::milliseconds max_age_;
  std::map<std::string, Answer, std::less<>> answers_;
};

}  // namespace profd
