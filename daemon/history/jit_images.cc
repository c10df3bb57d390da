#include "daemon/history/jit_images.h"

#include <algorithm>
#include <utility>

#include "daemon/profiles/object_images.h"
#include "daemon/storage/safe_name.h"

namespace profd {
namespace {

constexpr std::size_t kCommBytes = 64;
constexpr std::uint64_t kWindowParts = std::uint64_t{1} << 25;  // a bit more than a year
constexpr std::uint64_t kPartBytes = (kWindowJitRange.end - kWindowJitRange.start) / kWindowParts;

}  // namespace

// With a number where an exec or a reused pid made a second of that name.
std::string JitImages::line_path_for(const std::string& comm, std::uint32_t pid) {
  const std::string stem = "jit-" + safe_file_name(comm, kCommBytes) + "-" + std::to_string(pid);
  std::string name = stem;
  for (int number = 2; !taken_.insert(name).second; ++number) {
    name = stem + "-" + std::to_string(number);
  }
  return line_path_of(name);
}

Result<void> JitImages::write(const std::string& line_path, const JitImagePart& part) {
  const std::string image = part.encode(parser_, left_);
  left_ -= std::min<std::uint64_t>(left_, image.size());
  return put(line_path, image);
}

std::string ResultJitImages::line_path_of(const std::string& stem) const {
  return std::string(kBuildPrefix) + "objects/" + stem + ".so";
}

Result<void> ResultJitImages::put(const std::string& line_path, const std::string& image) {
  return result_.add(line_path.substr(kBuildPrefix.size()), image);
}

bool is_window_jit_line(const ProfileMapping& line) {
  return line.start >= kWindowJitRange.start && line.start < kWindowJitRange.end;
}

std::string WindowJitImages::line_path_of(const std::string& stem) const {
  return store_.path_of(stem + "-" + window_ + ".so");
}

// What doesn't fit would lie in the next window's: no process has so much code in one.
JitRoom WindowJitImages::room() const {
  const std::uint64_t start = kWindowJitRange.start + started_s_ % kWindowParts * kPartBytes;
  return {.own = {start, start + kPartBytes}};
}

Result<void> WindowJitImages::put(const std::string& line_path, const std::string& image) {
  const std::string name = line_path.substr(line_path.rfind('/') + 1);
  if (Result<void> written = store_.put(name, image); !written) return written;
  bytes_[name] = image.size();
  return {};
}

}  // namespace profd
