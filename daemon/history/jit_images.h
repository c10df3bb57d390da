// The images of the JIT code of a window, in the store that all windows share. Used on the window
// worker.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "collectors/parser/parser.h"
#include "daemon/history/object_store.h"
#include "daemon/profiles/jit_images.h"
#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

// Whether a mapping line is of the JIT image of a window. Only those have their addresses.
[[nodiscard]] bool is_window_jit_line(const ProfileMapping& line);

// jit-COMM-PID-WINDOW.so in the store. Each window has a range of addresses of its own, by the
// second in which it started, so that the profiles of a process's windows can be merged without
// moving an image.
class WindowJitImages final : public JitImages {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 20;  // with code and lines

  // `window` is its name and `started_s` its start in seconds since 1970. The size of each image is
  // written to `bytes`, by name. `store` and `bytes` must outlive *this.
  WindowJitImages(Parser& parser, ObjectStore& store, std::string window, std::uint64_t started_s,
                  std::map<std::string, std::uint64_t>& bytes);

 private:
  [[nodiscard]] std::string line_path_of(const std::string& stem) const override;
  [[nodiscard]] Result<void> put(const std::string& line_path, const std::string& image) override;

  ObjectStore& store_;
  std::string window_;
  std::map<std::string, std::uint64_t>& bytes_;
};

}  // namespace profd
