// Opens the page in the user's browser.

#pragma once

#include <signal.h>

#include <string>
#include <utility>

#include "formats/base/result.h"

namespace profd {

// A file that leads a browser to the address, so that the address, which has the token, is not an
// argument of a program: all users can read those. Removed with the object.
class BrowserLink {
 public:
  [[nodiscard]] static Result<BrowserLink> make(const std::string& url);

  BrowserLink(BrowserLink&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  BrowserLink& operator=(BrowserLink&&) = delete;
  ~BrowserLink();

  [[nodiscard]] const std::string& path() const { return path_; }

  // Starts xdg-open, with this signal mask, and does not wait for it. kNotFound: there is none.
  [[nodiscard]] Result<void> open(const sigset_t& mask) const;

 private:
  explicit BrowserLink(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace profd
