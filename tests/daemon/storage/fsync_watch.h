// The calls of fsync() in the test's process: each is reported before it is carried out.

#pragma once

#include <functional>
#include <string>

namespace profd::test {

// While one exists, `report` gets the path of each file or directory, on the thread that calls
// fsync(). One at a time.
class FsyncWatch {
 public:
  explicit FsyncWatch(std::function<void(const std::string& path)> report);
  FsyncWatch(const FsyncWatch&) = delete;
  FsyncWatch& operator=(const FsyncWatch&) = delete;
  ~FsyncWatch();
};

}  // namespace profd::test
