// A FUSE file system with one file, whose server answers until fall_silent().

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "formats/base/unique_fd.h"

namespace profd::test {

class SilentFuse {
 public:
  // Mounts on an empty directory, for all users; needs root and /dev/fuse. `user` counts as who
  // mounted it.
  explicit SilentFuse(const std::string& directory, uid_t user = 0);
  SilentFuse(const SilentFuse&) = delete;
  SilentFuse& operator=(const SilentFuse&) = delete;
  // Calls that wait for an answer fail.
  ~SilentFuse();

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string file() const { return directory_ + "/file"; }
  // The server answers nothing after this.
  void fall_silent() { silent_ = true; }

 private:
  void serve();
  void answer(std::uint32_t operation, std::uint64_t id);
  template <class T>
  void reply(std::uint64_t id, const T& body);

  std::string directory_;
  UniqueFd device_;
  bool mounted_ = false;
  std::atomic<bool> silent_ = false;
  std::atomic<bool> over_ = false;
  std::thread server_;
};

}  // namespace profd::test
