#include "daemon/profiles/profiled_object.h"

#include "daemon/storage/safe_name.h"

namespace profd {
namespace {

constexpr std::size_t kShownNameBytes = 100;

}  // namespace

void ProfiledObject::hit(std::uint64_t file_offset) {
  if (!image_) return;
  if (const Result<std::uint64_t> address = vaddr_of_offset(image_->elf, file_offset)) {
    image_->hit_addresses.insert(*address);
  }
}

std::string line_path_of_image(const std::string& name) {
  return std::string(kBuildPrefix) + "objects/" + name + ".so";
}

std::string path_in_result(const std::string& line_path) {
  return line_path.substr(kBuildPrefix.size());
}

std::string bracketed_name(const std::string& path) { return "[" + plain_name(path) + "]"; }

std::string plain_name(const std::string& path) {
  return safe_file_name(path.substr(path.rfind('/') + 1), kShownNameBytes);
}

}  // namespace profd
