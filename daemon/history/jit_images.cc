#include "daemon/history/jit_images.h"

#include <utility>

namespace profd {
namespace {

// Above the moved mappings of a process (daemon/profiles/mapping_layout.h).
constexpr std::uint64_t kStart = (std::uint64_t{1} << 53) + (std::uint64_t{1} << 51);
constexpr std::uint64_t kEnd = (std::uint64_t{1} << 53) + (std::uint64_t{1} << 52);

// Windows that start a year or more apart may share a range.
constexpr std::uint64_t kWindows = std::uint64_t{1} << 25;
constexpr std::uint64_t kWindowBytes = (kEnd - kStart) / kWindows;

// Functions that do not fit would lie in the next window's range. No process has that much code in
// one window.
AddressRange room_of(std::uint64_t started_s) {
  const std::uint64_t start = kStart + started_s % kWindows * kWindowBytes;
  return {start, start + kWindowBytes};
}

}  // namespace

bool is_window_jit_line(const ProfileMapping& line) {
  return line.start >= kStart && line.start < kEnd;
}

WindowJitImages::WindowJitImages(Parser& parser, ObjectStore& store, std::string window,
                                 std::uint64_t started_s,
                                 std::map<std::string, std::uint64_t>& bytes)
    : JitImages(parser, kMaxBytes, room_of(started_s)),
      store_(store),
      window_(std::move(window)),
      bytes_(bytes) {}

std::string WindowJitImages::line_path_of(const std::string& stem) const {
  return store_.path_of(stem + "-" + window_ + ".so");
}

Result<void> WindowJitImages::put(const std::string& line_path, const std::string& image) {
  const std::string name = line_path.substr(line_path.rfind('/') + 1);
  if (Result<void> written = store_.put(name, image); !written) return written;
  bytes_[name] = image.size();
  return {};
}

}  // namespace profd
