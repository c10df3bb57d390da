// Keeps a FileCloser from closing anything while the object lives.

#pragma once

#include <cstddef>
#include <future>
#include <memory>

#include "collectors/files/file_closer.h"

namespace profd::test {

class BlockedCloser {
 public:
  explicit BlockedCloser(FileCloser& closer) : closer_(closer) {
    closer_.close(std::shared_ptr<const void>(
        this, [gate = promise_.get_future().share()](const void*) { gate.wait(); }));
  }
  BlockedCloser(const BlockedCloser&) = delete;
  BlockedCloser& operator=(const BlockedCloser&) = delete;
  ~BlockedCloser() { promise_.set_value(); }

  // Until there is no room for more.
  void fill() {
    while (closer_.has_room()) closer_.close(std::make_shared<const int>(0));
  }
  [[nodiscard]] std::size_t files_behind() const { return closer_.waiting() - 1; }

 private:
  FileCloser& closer_;
  std::promise<void> promise_;
};

}  // namespace profd::test
