#include "daemon/profiles/jit_images.h"

#include <algorithm>

#include "daemon/profiles/profiled_object.h"
#include "daemon/storage/safe_name.h"

namespace profd {
namespace {

constexpr std::size_t kImageCommBytes = 64;

}  // namespace

// An exec or a reused pid can give two processes the same name.
std::string JitImages::line_path_for(const std::string& code, const std::string& comm,
                                     std::uint32_t pid) {
  const std::string stem =
      code + "-" + safe_file_name(comm, kImageCommBytes) + "-" + std::to_string(pid);
  std::string name = stem;
  for (int number = 2; !taken_.insert(name).second; ++number) {
    name = stem + "-" + std::to_string(number);
  }
  return line_path_of_image(name);
}

Result<void> JitImages::write(const std::string& line_path, const JitImagePart& part) {
  const std::string image = part.encode(parser_, left_);
  left_ -= std::min<std::uint64_t>(left_, image.size());
  return result_.add(path_in_result(line_path), image);
}

}  // namespace profd
